import { chmod, chown, mkdir, rename, rm } from "node:fs/promises";
import http2 from "node:http2";
import path from "node:path";
import { socketPath, type WorkloadEntry } from "../../controller/backends/local/workload-entry.ts";
import type { Clock } from "../../controller/platform/clock.ts";
import type { Authority } from "./authority.ts";
import { type Owner, socketOwner } from "./socket-owner.ts";
import { createWorkloadHandler } from "./workload-handler.ts";

/** One workload that is served. Closing removes its socket and ends its calls. */
export type WorkloadSocket = { close(): Promise<void> };

export type WorkloadSocketOptions = {
  readonly folder: string;
  readonly authority: Authority;
  readonly svidTtlMs: number;
  readonly clock: Clock;
};

const closeGraceMs = 1_000;

/**
 * Serves a workload on a socket of its own, and this is what tells workloads apart: its folder and the socket
 * belong to the workload's uid, so nobody but that uid and root can connect. The socket appears when all of this is
 * done. Rejects if the entry's uid cannot be given, or the path is too long.
 */
export async function openWorkloadSocket(
  name: string,
  entry: WorkloadEntry,
  { folder, authority, svidTtlMs, clock }: WorkloadSocketOptions,
): Promise<WorkloadSocket> {
  const socket = socketPath(folder, name);
  const owner = socketOwner(entry.uid, { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 });
  const ownFolder = path.dirname(socket);
  await rm(ownFolder, { recursive: true, force: true });
  await mkdir(ownFolder, { mode: 0o700 });

  const removed = new AbortController();
  const handler = createWorkloadHandler(
    { authority, spiffeId: entry.spiffeId, svidTtlMs, clock },
    removed.signal,
  );
  const server = http2.createServer(handler);
  const sessions = trackSessions(server);
  const close = async () => {
    await rm(ownFolder, { recursive: true, force: true });
    removed.abort();
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    // The calls end by themselves now; a peer that does not read what we send is cut.
    for (const session of sessions) session.close();
    const over = new AbortController();
    await Promise.race([closed, clock.sleep(closeGraceMs, over.signal).catch(() => {})]);
    over.abort();
    for (const session of sessions) session.destroy();
    await closed;
  };
  try {
    await listen(server, socket, owner);
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}

async function listen(server: http2.Http2Server, socket: string, owner: Owner | undefined): Promise<void> {
  // Under another name until it is ready: then whoever sees the socket may use it.
  const unready = path.join(path.dirname(socket), ".new");
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(unready, resolve);
  await listening;
  await chmod(unready, 0o600);
  if (owner !== undefined) {
    await chown(unready, owner.uid, owner.gid);
    await chown(path.dirname(socket), owner.uid, owner.gid);
  }
  await rename(unready, socket);
}

function trackSessions(server: http2.Http2Server): ReadonlySet<http2.ServerHttp2Session> {
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
  });
  return sessions;
}

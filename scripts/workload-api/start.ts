import { mkdir } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startServer } from "../peers/server-process.ts";

export type WorkloadApiOptions = {
  /** Where the CA, the entries and the sockets are; workloads with another uid must be able to pass through. */
  readonly folder: string;
  readonly trustDomain: string;
  /** An hour if not given. */
  readonly svidTtlSeconds?: number;
  /** How far its clock is ahead of ours; not at all if not given. */
  readonly clockAheadSeconds?: number;
  /** Gives up the start. */
  readonly signal: AbortSignal;
};

/** A Workload API that runs as a process of its own; it dies with this process at the latest. */
export type RunningWorkloadApi = AsyncDisposable & {
  readonly pid: number;
  /** Resolves to how it ended; never rejects. */
  readonly exited: Promise<string>;
  stop(): Promise<void>;
};

const readyDeadlineMs = 120_000;

/** Starts the development Workload API and waits until it is ready. Rejects with the end of its log if it is not. */
export async function startWorkloadApi(options: WorkloadApiOptions): Promise<RunningWorkloadApi> {
  const { folder, trustDomain, svidTtlSeconds, clockAheadSeconds, signal } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const program = fileURLToPath(new URL("main.ts", import.meta.url));
  const ttl = svidTtlSeconds === undefined ? [] : ["--svid-ttl", String(svidTtlSeconds)];
  const ahead = clockAheadSeconds === undefined ? [] : ["--clock-ahead", String(clockAheadSeconds)];
  const server = await startServer({
    name: "the development Workload API",
    program: process.execPath,
    args: [program, "--folder", folder, "--trust-domain", trustDomain, ...ttl, ...ahead],
    folder,
    environment: process.env,
    logFile: path.join(folder, "workload-api.log"),
  });
  const stop = () => server.stop();
  try {
    await server.line(/^\{"ready":true\}$/, readyDeadlineMs, signal);
  } catch (error) {
    await stop();
    throw error;
  }
  return { pid: server.pid, exited: server.exited, stop, [Symbol.asyncDispose]: stop };
}

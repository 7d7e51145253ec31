import { createHash } from "node:crypto";
import { realpath } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";

const againMs = 1_000;

/**
 * Where there is no Kubernetes Lease, one controller at a time leads on a state folder. The lock is a unix socket
 * in the kernel's own name space: it goes with its process however that ends, so none is ever stale. Waits, and
 * says so once, while another controller has it; rejects with the signal's reason.
 */
export async function lockFolder(
  folder: string,
  clock: Clock,
  log: Logger,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  // A socket's name has room for 107 bytes, a folder's has more.
  const digest = createHash("sha256")
    .update(await realpath(folder))
    .digest("hex");
  const name = `\0gitea-dynamic-runner/controller/${digest}`;
  for (let tries = 0; ; tries++) {
    const server = await listen(name);
    if (server !== undefined)
      return { [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())) };
    if (tries === 0) log.warn({ folder }, "another controller leads on this folder, waiting for its end");
    await clock.sleep(againMs, signal);
  }
}

/** Undefined if the name is taken. */
function listen(name: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((connection) => connection.destroy());
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(name, () => {
      resolve(server);
    });
  });
}

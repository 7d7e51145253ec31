import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Makes sure that one bootstrap runs for an attempt: the environment may reach a machine twice, and the second
 * one must not prepare Docker or write files under the first one's feet. The lock is an abstract unix socket,
 * which ends with its process; undefined means that another process has it. Where there are no such sockets
 * (elsewhere than on Linux) every caller gets the lock, and the claim decides.
 */
export async function onlyOne(capability: string): Promise<AsyncDisposable | undefined> {
  if (process.platform !== "linux") return { [Symbol.asyncDispose]: async () => undefined };
  // Anybody on the machine can read the name, so it must not tell the capability.
  const attempt = createHash("sha256").update(capability).digest("hex").slice(0, 32);
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen(`\0gitea-dynamic-runner/bootstrap/${attempt}`);
    await once(server, "listening");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EADDRINUSE") return undefined;
    throw error;
  }
  return {
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

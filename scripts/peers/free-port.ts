import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Below the ports that systems give to outgoing connections and to whoever wants any: a server that is started again on
 * its port does not find it taken by somebody's connection.
 */
const ports = { from: 20_000, below: 32_768 } as const;
const mostTries = 100;

/**
 * A port that nobody listens on now at one of our addresses, and that no other call gives out, in this process or another one of this
 * machine, until this process ends: its user may listen on it later, at any address, and again and again.
 */
export async function freePort(address = "127.0.0.1"): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = randomInt(ports.from, ports.below);
    try {
      await listenOnce(port, address);
      await reserve(port);
      return port;
    } catch (error) {
      const isTaken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
      if (!isTaken || tries === mostTries) throw error;
    }
  }
}

async function listenOnce(port: number, address: string): Promise<void> {
  const server = createServer();
  server.listen(port, address);
  await once(server, "listening");
  server.close();
  await once(server, "close");
}

/** Linux has sockets that are names and no files, and go with whoever listens on them; elsewhere nobody is kept out. */
async function reserve(port: number): Promise<void> {
  if (process.platform !== "linux") return;
  const name = createServer().listen(`\0gitea-dynamic-runner-port-${port}`);
  name.unref();
  await once(name, "listening");
}

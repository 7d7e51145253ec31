import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";

/** A port that nobody listens on now at one of our addresses; somebody else may take it before its user does. */
export async function freePort(address = "127.0.0.1"): Promise<number> {
  const server = createServer();
  server.listen(0, address);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A way to a registry on which what is uploaded does not get through, and nobody says so. */
export type StalledUploads = AsyncDisposable & {
  /** As in image references. */
  readonly host: string;
  /** How many uploads wait here whose sender has not gone. */
  waiting(): number;
};

/** Starts it. Reading, logging in and asking for a place to upload to go on to the registry. */
export async function startStalledUploads(registry: string): Promise<StalledUploads> {
  let waiting = 0;
  const isUpload = ({ method, url = "" }: IncomingMessage) =>
    (method === "PATCH" || method === "PUT") && url.includes("/blobs/uploads/");
  const stall = (incoming: IncomingMessage) => {
    waiting++;
    incoming.socket.once("close", () => waiting--);
    // It gets no answer. Unread, what it brings would hide that the sender has gone.
    incoming.resume();
  };
  const pass = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method, headers, url = "/" } = incoming;
    const onward = request(new URL(url, registry), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  };
  const server = createServer((incoming, outgoing) => {
    if (isUpload(incoming)) stall(incoming);
    else pass(incoming, outgoing);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    waiting: () => waiting,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

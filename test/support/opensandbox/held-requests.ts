import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** A way to a server on which creates can be kept. */
export type HeldRequests = AsyncDisposable & {
  readonly url: URL;
  /** From now on a create stays here, also if whoever asked for it has gone. Resolves when one has come. */
  hold(): Promise<void>;
  /** Lets what is kept go on to the server, and whatever comes. */
  release(): void;
};

/** Takes each request in whole before it hands it on, so that what has begun here arrives whoever has ended. */
export async function startHeldRequests(target: URL): Promise<HeldRequests> {
  let gate: PromiseWithResolvers<void> | undefined;
  let arrived = Promise.withResolvers<void>();
  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = "GET", url = "/", headers } = request;
    const body = await buffer(request);
    if (method === "POST" && gate !== undefined) {
      arrived.resolve();
      await gate.promise;
    }
    const { host: _host, connection: _connection, "content-length": _length, ...rest } = headers;
    const answer = await fetch(new URL(url, target), {
      method,
      headers: rest as Record<string, string>,
      ...(body.length > 0 ? { body } : {}),
    });
    const bytes = Buffer.from(await answer.arrayBuffer());
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(bytes);
  };
  const server = createServer((request, response) => {
    // As a proxy does whose server is away.
    forward(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const release = () => {
    gate?.resolve();
    gate = undefined;
  };
  return {
    url: new URL(`http://127.0.0.1:${port}`),
    hold: () => {
      gate = Promise.withResolvers();
      arrived = Promise.withResolvers();
      return arrived.promise;
    },
    release,
    [Symbol.asyncDispose]: async () => {
      release();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

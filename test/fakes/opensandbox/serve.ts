import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { CutOff, type FakeAnswer, type FakeRequest, Refused } from "./answer.ts";

export type Served = {
  readonly url: URL;
  /** How many connections there were. */
  readonly connections: number;
  /** How many of them there are now. */
  readonly connected: number;
  /** Requests that are being served. */
  readonly open: number;
  /** Cuts all connections; further ones as well, until they may come again. */
  setAway(isAway: boolean): void;
  close(): Promise<void>;
};

export type ServeOptions = {
  /** Over https, with this. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly keepAliveMs: number;
};

/** Puts what answers requests on a free port of this machine. */
export async function serve(
  handle: (request: FakeRequest) => Promise<FakeAnswer>,
  { tls, keepAliveMs }: ServeOptions,
): Promise<Served> {
  let [connections, connected, open] = [0, 0, 0];
  let isAway = false;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    try {
      const read = await readRequest(request).catch(() => undefined);
      if (read === undefined) throw new CutOff("the client is gone");
      send(response, await handle(read));
    } catch (error) {
      if (error instanceof Refused) send(response, error.answer);
      else request.socket.destroy();
      if (!(error instanceof Refused || error instanceof CutOff)) throw error;
    }
  };
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    open++;
    response.once("close", () => open--);
    void answer(request, response);
  };
  const server = tls === undefined ? http.createServer(listener) : https.createServer(tls, listener);
  server.keepAliveTimeout = keepAliveMs;
  server.on("connection", (socket) => {
    connections++;
    connected++;
    socket.once("close", () => connected--);
    if (isAway) socket.destroy();
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject).listen({ host: "127.0.0.1", port: 0 }, listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`),
    get connections() {
      return connections;
    },
    get connected() {
      return connected;
    },
    get open() {
      return open;
    },
    setAway: (away) => {
      isAway = away;
      if (away) server.closeAllConnections();
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function readRequest(request: IncomingMessage): Promise<FakeRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const url = new URL(request.url ?? "/", "http://localhost");
  return {
    method: request.method ?? "GET",
    path: url.pathname.replace(/^\/v1(?=\/|$)/, ""),
    query: url.searchParams,
    headers: request.headers,
    text: Buffer.concat(chunks).toString(),
  };
}

function send(response: ServerResponse, { status, body, headers = {} }: FakeAnswer): void {
  if (response.destroyed) return;
  const type = typeof body === "string" ? "text/plain" : "application/json";
  response.writeHead(status, { ...(body === undefined ? {} : { "Content-Type": type }), ...headers });
  response.end(body === undefined || typeof body === "string" ? body : JSON.stringify(body));
}

import type { IncomingMessage, ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import type { ApiCall } from "../../controller/kubernetes/kubernetes-api.ts";
import { createTestCa, issueLeaf } from "../support/test-pki.ts";
import type { FakeKubernetes } from "./fake-kubernetes.ts";
import { badRequest, Refused, unauthorized } from "./kubernetes/refused.ts";
import type { FakeWatch } from "./kubernetes/watch.ts";

export type ServedKubernetes = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  /** Of its certificate, PEM. */
  readonly ca: string;
  /** Those that are taken; change them as a cluster does. */
  readonly tokens: Set<string>;
  /** A client's certificate that is taken, and its key, PEM. */
  readonly client: { readonly cert: string; readonly key: string };
  /** How many connections there were. */
  readonly connections: number;
  /** How many of them there are now. */
  readonly connected: number;
  /** Requests that are being served. */
  readonly open: number;
  readonly requests: readonly Pick<IncomingMessage, "method" | "url" | "headers">[];
};

/** Puts a fake cluster on HTTPS, on a free port of this machine. */
export async function serveFakeKubernetes(
  cluster: Pick<FakeKubernetes, "handle">,
  host = "127.0.0.1",
): Promise<ServedKubernetes> {
  const ca = await createTestCa();
  const names = { dnsNames: ["localhost"], addresses: [host], uris: [] };
  const [own, client] = await Promise.all([
    issueLeaf(ca, "", names),
    issueLeaf(ca, "", { uris: [], subject: "CN=admin, O=system:masters", dnsNames: ["admin"] }),
  ]);
  const tokens = new Set<string>();
  const requests: IncomingMessage[] = [];
  let connections = 0;
  let connected = 0;
  let open = 0;

  const isKnown = ({ headers, socket }: IncomingMessage) =>
    (socket as TLSSocket).authorized || tokens.has(headers.authorization?.replace("Bearer ", "") ?? "");

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    try {
      if (!isKnown(request)) throw unauthorized();
      const answered = await cluster.handle(await readRequest(request), gone.signal);
      if ("lines" in answered) await sendWatch(response, answered);
      else send(response, answered.status, answered.body, answered.headers);
    } catch (error) {
      if (error instanceof Refused) send(response, error.status, error.body, error.headers);
      // No answer is the answer, also to what the fake itself cannot do.
      else request.socket.destroy();
    }
  };

  const server = https.createServer(
    {
      cert: own.chainPem,
      key: own.keyPem,
      ca: ca.pem,
      requestCert: true,
      rejectUnauthorized: false,
      // As Kubernetes' server: an idle connection is the client's to close.
      keepAliveTimeout: 90_000,
    },
    (request, response) => {
      requests.push(request);
      open++;
      response.once("close", () => open--);
      void answer(request, response);
    },
  );
  server.on("connection", (socket) => {
    connections++;
    connected++;
    socket.once("close", () => connected--);
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject).listen({ host, port: 0 }, listening.resolve);
  await listening.promise;
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    port,
    ca: ca.pem,
    tokens,
    client: { cert: client.chainPem, key: client.keyPem },
    get connections() {
      return connections;
    },
    get connected() {
      return connected;
    },
    get open() {
      return open;
    },
    requests,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function readRequest(request: IncomingMessage) {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const url = new URL(request.url ?? "/", "https://localhost");
  const contentType = request.headers["content-type"];
  return {
    method: (request.method ?? "GET") as ApiCall["method"],
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    body: chunks.length === 0 ? undefined : jsonOf(Buffer.concat(chunks).toString()),
    ...(contentType === undefined ? {} : { contentType }),
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest("the body is no JSON");
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const isText = typeof body === "string";
  response.writeHead(status, { "Content-Type": isText ? "text/plain" : "application/json", ...headers });
  response.end(isText ? body : JSON.stringify(body));
}

async function sendWatch(response: ServerResponse, watch: FakeWatch): Promise<void> {
  response.once("close", () => watch.close());
  response.writeHead(200, { "Content-Type": "application/json" });
  response.flushHeaders();
  for await (const line of watch.lines) response.write(`${JSON.stringify(line)}\n`);
  response.end();
}

import { once } from "node:events";
import { createServer, request as ask } from "node:http";
import type { AddressInfo } from "node:net";
import { type Calls, createCalls } from "./pods-calls.ts";

/** Stands between one client and its OpenSandbox server, and counts. */
export type SandboxProxy = AsyncDisposable & {
  readonly url: URL;
  /** As in `POST sandboxes`, `GET sandboxes/<id>`. */
  readonly calls: Calls;
  /** Of all answers' bodies. */
  bytes(): number;
  /** When the last POST of a sandbox came, in `performance.now()`. */
  askedAt(): number;
};

export async function startSandboxProxy(target: URL): Promise<SandboxProxy> {
  const calls = createCalls();
  let bytes = 0;
  let askedAt = NaN;
  const server = createServer((incoming, outgoing) => {
    const { method = "", url = "/", headers } = incoming;
    const [, , kind = "", id] = new URL(url, target).pathname.split("/");
    if (method === "POST" && id === undefined) askedAt = performance.now();
    calls.count(`${method} ${kind}${id === undefined ? "" : "/<id>"}`);
    const onward = ask(new URL(url, target), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on("data", (chunk: Buffer) => (bytes += chunk.length));
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.once("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`http://127.0.0.1:${port}`),
    calls,
    bytes: () => bytes,
    askedAt: () => askedAt,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

import http2, { type ClientHttp2Session } from "node:http2";
import tls, { type TLSSocket } from "node:tls";
import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { compressionGzip, createConnectTransport } from "@connectrpc/connect-node";
import { actionsPath, callHeaders } from "../../controller/assignment/executor-call.ts";
import { Result, RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { withHeaders } from "./facade-under-test.ts";
import type { TestLeaf } from "./test-pki.ts";

export type Said = { readonly assignmentId: string; readonly capability: string };

/** Somebody who may dial a facade as often and as wrongly as he likes. Disposing of him ends all that he has opened. */
export type FacadeAttacker = AsyncDisposable & {
  /** TLS to the facade, whoever it is, with this certificate or none. */
  dial(leaf: TestLeaf | undefined, options?: tls.ConnectionOptions): TLSSocket;
  /** The five calls over connections with this certificate, with these headers. */
  client(leaf: TestLeaf | undefined, said: Said, gzip?: boolean): Client<typeof RunnerService>;
  /** HTTP/2 by hand. */
  session(leaf: TestLeaf): ClientHttp2Session;
};

/** The path of one of the five calls. */
export const callPath = (method: string) => `${actionsPath}/${RunnerService.typeName}/${method}`;

/** What a call says of its caller. The instance is always the same one, and never the one of a bootstrap. */
export function saidHeaders({ assignmentId, capability }: Said): Record<string, string> {
  return {
    [callHeaders.assignmentId]: assignmentId,
    [callHeaders.capability]: capability,
    [callHeaders.instance]: "mallory-instance-0001",
  };
}

export function createFacadeAttacker(facadeUrl: string): FacadeAttacker {
  const { hostname: host, port } = new URL(facadeUrl);
  const resources = new AsyncDisposableStack();
  const dial: FacadeAttacker["dial"] = (leaf, options = {}) => {
    const socket = tls.connect({
      host,
      port: Number(port),
      ALPNProtocols: ["h2"],
      // He takes anybody for the facade.
      rejectUnauthorized: false,
      ...(leaf && { cert: leaf.chainPem, key: leaf.keyPem }),
      ...options,
    });
    socket.on("error", () => undefined);
    resources.defer(() => void socket.destroy());
    return socket;
  };
  return {
    dial,
    client: (leaf, said, gzip = false) => {
      const transport = createConnectTransport({
        baseUrl: `${facadeUrl}${actionsPath}`,
        httpVersion: "2",
        nodeOptions: { createConnection: () => dial(leaf) },
        interceptors: [withHeaders(saidHeaders(said))],
        ...(gzip ? { sendCompression: compressionGzip, compressMinBytes: 0 } : {}),
      });
      return createClient(RunnerService, transport);
    },
    session: (leaf) => {
      const session = http2.connect(facadeUrl, { createConnection: () => dial(leaf) });
      session.on("error", () => undefined);
      resources.defer(() => {
        session.destroy();
      });
      return session;
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** How a call ended: `ok`, or the name of its code. */
export async function outcome(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "ok";
  } catch (error) {
    return Code[ConnectError.from(error).code] ?? "";
  }
}

/** Everything that an executor may do, and what it may not, done to a task; how each ended. */
export async function tryAll(
  client: Client<typeof RunnerService>,
  taskId: bigint,
): Promise<readonly string[]> {
  return [
    await outcome(client.declare({ labels: ["self-hosted", "production"] })),
    await outcome(client.fetchTask({})),
    await outcome(client.updateLog({ taskId, index: 0n, rows: [{ content: "owned" }] })),
    await outcome(client.updateTask({ state: { id: taskId, result: Result.FAILURE } })),
    await outcome(client.register({ name: "mallory", token: "x" })),
  ];
}

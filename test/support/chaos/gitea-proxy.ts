import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fromBinary } from "@bufbuild/protobuf";
import { Result, UpdateTaskRequestSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

/** Stands between a controller and its Gitea. */
export type GiteaProxy = AsyncDisposable & {
  readonly url: string;
  /** From now on FetchTask does not reach Gitea until `release`. */
  holdFetches(): void;
  /** How many are held now. */
  heldFetches(): number;
  release(): void;
  /** As soon as a task's result is to be reported, and until `up`, nothing reaches Gitea any more. */
  goDownAtResult(): void;
  isDown(): boolean;
  up(): void;
};

export async function startGiteaProxy(gitea: string): Promise<GiteaProxy> {
  let gate: PromiseWithResolvers<void> | undefined;
  let held = 0;
  let state: "up" | "until a result" | "down" = "up";

  const relay = (incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse) => {
    const { method, headers, url } = incoming;
    const upstream = request(new URL(url ?? "/", gitea), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    upstream.on("error", () => outgoing.destroy());
    upstream.end(body);
  };
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const body = Buffer.concat(await incoming.toArray());
    if (incoming.url?.endsWith("/FetchTask") === true && gate !== undefined) {
      held++;
      await gate.promise;
      held--;
    }
    if (state === "until a result" && isResult(incoming, body)) state = "down";
    if (state === "down") outgoing.destroy();
    else relay(incoming, body, outgoing);
  };
  const server = createServer((incoming, outgoing) => {
    serve(incoming, outgoing).catch(() => outgoing.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    holdFetches: () => {
      gate = Promise.withResolvers();
    },
    heldFetches: () => held,
    release: () => {
      gate?.resolve();
      gate = undefined;
    },
    goDownAtResult: () => {
      state = "until a result";
    },
    isDown: () => state === "down",
    up: () => {
      state = "up";
    },
    [Symbol.asyncDispose]: async () => {
      gate?.resolve();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function isResult({ url }: IncomingMessage, body: Buffer): boolean {
  if (url?.endsWith("/UpdateTask") !== true) return false;
  return (fromBinary(UpdateTaskRequestSchema, body).state?.result ?? 0) !== Result.UNSPECIFIED;
}

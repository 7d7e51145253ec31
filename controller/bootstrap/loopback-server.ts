import type { ServiceImpl } from "@connectrpc/connect";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { actionsPath } from "../assignment/executor-call.ts";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createRpcListener } from "../platform/rpc-listener.ts";

/** The address that stands in the `.runner` file. */
export type LoopbackServer = AsyncDisposable & {
  /** `http://127.0.0.1:<port>`, without a path: some clients keep only the origin of an address. */
  readonly origin: string;
};

export type LoopbackParts = {
  readonly service: ServiceImpl<typeof RunnerService>;
  /** Answers whatever is not a call of the runner protocol. */
  readonly proxy: RequestListener;
};

/**
 * Longer than Go's clients keep an idle connection (90 s): it is always they who close it, so no request
 * meets a connection that is being closed.
 */
const keepAliveMs = 120_000;

const callPrefix = `${actionsPath}/${RunnerService.typeName}/`;

/** Listens on a free port of 127.0.0.1, and nowhere else. Disposing ends it with all its connections. */
export async function startLoopbackServer({ service, proxy }: LoopbackParts): Promise<LoopbackServer> {
  const answerCall = createRpcListener({
    routes: (router) => router.service(RunnerService, service),
    requestPathPrefix: actionsPath,
    grpc: false,
    grpcWeb: false,
  });
  // An upload may take as long as it takes: Node would end it after five minutes.
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: keepAliveMs }, (request, response) =>
    request.url?.startsWith(callPrefix) === true ? answerCall(request, response) : proxy(request, response),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port on 127.0.0.1");
  return {
    origin: `http://127.0.0.1:${address.port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

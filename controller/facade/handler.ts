import type { Http2ServerRequest, Http2ServerResponse, Http2Session } from "node:http2";
import { createContextKey, createContextValues } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { actionsPath } from "../assignment/executor-call.ts";
import type { Peer } from "./admit.ts";
import { createRunnerService, type RunnerServiceOptions } from "./runner-service.ts";

/** A whole backlog of log rows may come in one call after an outage. */
const maxBodyBytes = 64 * 1024 * 1024;

const peerKey = createContextKey<Peer | undefined>(undefined, { description: "peer of the session" });

/** The facade's requests, to be served by an HTTP/2 server with mutual TLS; `peerOf` must not throw: that would end the process, not the call. */
export function createFacadeHandler(
  options: Omit<RunnerServiceOptions, "peerOf"> & {
    readonly peerOf: (session: Http2Session | undefined) => Peer;
  },
): (request: Http2ServerRequest, response: Http2ServerResponse) => void {
  const service = createRunnerService({ ...options, peerOf: (context) => context.values.get(peerKey) });
  const handle = connectNodeAdapter({
    routes: (router) => router.service(RunnerService, service),
    requestPathPrefix: actionsPath,
    readMaxBytes: maxBodyBytes,
    grpc: false,
    grpcWeb: false,
    contextValues: (request) => {
      const values = createContextValues();
      values.set(peerKey, options.peerOf("stream" in request ? request.stream.session : undefined));
      return values;
    },
  });
  return handle;
}

import type { Http2ServerRequest, Http2ServerResponse, Http2Session } from "node:http2";
import { createContextKey, createContextValues } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { actionsPath, callHeaders } from "../assignment/executor-call.ts";
import { isVerified, type Peer } from "./admit.ts";
import { createRunnerService, type RunnerServiceOptions } from "./runner-service.ts";

/** A whole backlog of log rows may come in one call after an outage. */
const maxBodyBytes = 64 * 1024 * 1024;
/** A body is read before its call is judged: of somebody without a capability only as much as a claim has. */
const maxStrangersBodyBytes = 64 * 1024;

const peerKey = createContextKey<Peer | undefined>(undefined, { description: "peer of the session" });
const overKey = createContextKey<() => void>(() => undefined, { description: "the session may end" });

export type FacadeHandlerOptions = Omit<RunnerServiceOptions, "peerOf" | "onOver"> & {
  /** Must not throw: that would end the process, not the call. */
  readonly peerOf: (session: Http2Session | undefined) => Peer;
  /** Ends a session whose executor is not needed any more; its answer is still on its way. */
  readonly endSoon: (session: Http2Session) => void;
};

/** The facade's requests, to be served by an HTTP/2 server with mutual TLS. */
export function createFacadeHandler(
  options: FacadeHandlerOptions,
): (request: Http2ServerRequest, response: Http2ServerResponse) => void {
  const { keyRing, peerOf, endSoon } = options;
  const service = createRunnerService({
    ...options,
    peerOf: (context) => context.values.get(peerKey),
    onOver: (context) => {
      context.values.get(overKey)();
    },
  });
  const adapter = (readMaxBytes: number) =>
    connectNodeAdapter({
      routes: (router) => router.service(RunnerService, service),
      requestPathPrefix: actionsPath,
      readMaxBytes,
      grpc: false,
      grpcWeb: false,
      contextValues: (request) => {
        const session = "stream" in request ? sessionOf(request) : undefined;
        const values = createContextValues();
        values.set(peerKey, peerOf(session));
        values.set(overKey, () => {
          if (session !== undefined) endSoon(session);
        });
        return values;
      },
    });
  const forExecutors = adapter(maxBodyBytes);
  const forStrangers = adapter(maxStrangersBodyBytes);
  return (request, response) => {
    const known = isVerified(keyRing, peerOf(sessionOf(request)), headersOf(request));
    return known ? forExecutors(request, response) : forStrangers(request, response);
  };
}

/** Undefined once the session is gone, whatever the types say. */
function sessionOf({ stream }: Http2ServerRequest): Http2Session | undefined {
  return stream.session;
}

function headersOf({ headers }: Http2ServerRequest): Headers {
  const given = new Headers();
  for (const name of [callHeaders.assignmentId, callHeaders.capability]) {
    const value = headers[name];
    if (typeof value === "string") given.set(name, value);
  }
  return given;
}

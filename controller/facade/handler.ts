import type { Http2ServerRequest, Http2ServerResponse, Http2Session } from "node:http2";
import { createContextKey, createContextValues } from "@connectrpc/connect";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { actionsPath, callHeaders } from "../assignment/executor-call.ts";
import { describeError } from "../platform/errors.ts";
import { createRpcListener, type RpcRequest } from "../platform/rpc-listener.ts";
import { admit, callerOf, type Peer } from "./admit.ts";
import { createFailTooLarge } from "./fail-too-large.ts";
import { createLargeBodies } from "./large-bodies.ts";
import { createRunnerService, type RunnerServiceOptions } from "./runner-service.ts";

/** A whole backlog of log rows may come in one call after an outage. */
const maxBodyBytes = 64 * 1024 * 1024;
/** A body is read before its call is judged: of anybody but a live attempt's executor only as much as a claim has. */
const maxSmallBodyBytes = 64 * 1024;

/** What a body is answered with that is larger than what is read of it. */
const tooLargeStatus = 429;

const peerKey = createContextKey<Peer | undefined>(undefined, { description: "peer of the session" });
const overKey = createContextKey<() => void>(() => undefined, { description: "the session may end" });

const workKey = createContextKey<(work: Promise<unknown>) => void>(() => undefined, {
  description: "hears what a call does",
});

export type FacadeHandlerOptions = Omit<RunnerServiceOptions, "peerOf" | "onOver" | "onWork"> & {
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
    onWork: (context, work) => {
      context.values.get(workKey)(work);
    },
  });
  const works = new WeakMap<object, Promise<unknown>>();
  const unreadable = (request: RpcRequest, error: unknown) => {
    const peer = peerOf("stream" in request ? sessionOf(request) : undefined);
    const method = request.url?.split("?", 1)[0]?.split("/").at(-1) ?? "";
    const spiffeId = peer.ok ? peer.id : undefined;
    const reason = describeError(error);
    options.onRefused({ kind: "malformed", method, reason, spiffeId, assignment: undefined });
  };
  const listener = (readMaxBytes: number) =>
    createRpcListener({
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
        values.set(workKey, (work) => void works.set(request, work));
        return values;
      },
      onUnreadable: unreadable,
      onUnanswered: (error) => {
        options.log.debug({ error: describeError(error) }, "answer not taken");
      },
    });
  const withLargeBody = listener(maxBodyBytes);
  const withSmallBody = listener(maxSmallBodyBytes);
  const largeBodies = createLargeBodies();
  const failTooLarge = createFailTooLarge(options);
  /** The assignment that a call is proved to be of, by its current attempt. */
  const provedAssignment = (request: Http2ServerRequest): string | undefined => {
    try {
      const caller = callerOf(keyRing, peerOf(sessionOf(request)), headersOf(request));
      const { assignmentId: id, spiffeId } = caller;
      admit(caller, options.assignments.resolve(id, spiffeId)?.record);
      return id;
    } catch {
      return undefined;
    }
  };
  return (request, response) => {
    const id = provedAssignment(request);
    const giveBack = id === undefined ? undefined : largeBodies.take(id);
    if (giveBack === undefined) return withSmallBody(request, response);
    const peer = peerOf(sessionOf(request));
    request.stream.once("close", () => {
      // A call goes on without its caller, and holds its body as long.
      const work = works.get(request) ?? Promise.resolve();
      work.then(giveBack, giveBack);
      if (response.statusCode === tooLargeStatus && request.url.endsWith("/UpdateTask"))
        void failTooLarge(peer, headersOf(request), `it has more than ${maxBodyBytes} bytes`);
    });
    return withLargeBody(request, response);
  };
}

/** Undefined once the session is gone, whatever the types say. */
function sessionOf({ stream }: Http2ServerRequest): Http2Session | undefined {
  return stream.session;
}

function headersOf({ headers }: Http2ServerRequest): Headers {
  const given = new Headers();
  for (const name of [callHeaders.assignmentId, callHeaders.capability, callHeaders.instance]) {
    const value = headers[name];
    if (typeof value === "string") given.set(name, value);
  }
  return given;
}

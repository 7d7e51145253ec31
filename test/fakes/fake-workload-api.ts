import { rm } from "node:fs/promises";
import http2 from "node:http2";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Endpoint } from "../../controller/spiffe/endpoint.ts";
import {
  type JWTSVIDRequest,
  type JWTSVIDResponse,
  JWTSVIDResponseSchema,
  SpiffeWorkloadAPI,
  type X509SVIDResponse,
  X509SVIDResponseSchema,
} from "../../proto/gen/spiffe/workload_pb.ts";

export type X509Message = MessageInitShape<typeof X509SVIDResponseSchema>;

/** One FetchX509SVID call, at the other end of it. */
export type FakeStream = {
  readonly header: Headers;
  send(message: X509Message): void;
  end(): void;
  fail(code: Code, message: string): void;
  /** Resolves when the call is over, from whichever side. */
  readonly over: Promise<void>;
};

export type FakeWorkloadApi = AsyncDisposable & {
  readonly endpoint: Endpoint;
  start(): Promise<void>;
  /** Ends as a killed agent does: all connections are cut, the socket is gone. */
  kill(): Promise<void>;
  /** The next FetchX509SVID call, in the order in which they came. */
  nextStream(): Promise<FakeStream>;
  /** What FetchJWTSVID answers. */
  jwt: (request: JWTSVIDRequest) => MessageInitShape<typeof JWTSVIDResponseSchema>;
};

/** A Workload API on a unix socket whose every answer is the test's. Not started yet. */
export function createFakeWorkloadApi(path: string): FakeWorkloadApi {
  const arrived = createQueue<FakeStream>();
  const sessions = new Set<http2.ServerHttp2Session>();
  let server: http2.Http2Server | undefined;
  const api: FakeWorkloadApi = {
    endpoint: { kind: "unix", path },
    nextStream: () => arrived.next(),
    jwt: () => {
      throw new ConnectError("no identity issued", Code.PermissionDenied);
    },
    start: async () => {
      server = http2.createServer(handler());
      server.on("session", (session) => {
        sessions.add(session);
        session.once("close", () => sessions.delete(session));
      });
      const listening = Promise.withResolvers<void>();
      server.once("error", listening.reject).listen(path, listening.resolve);
      await listening.promise;
    },
    kill: async () => {
      const closed = new Promise((resolve) => server?.close(resolve) ?? resolve(undefined));
      for (const session of sessions) session.destroy();
      await closed;
      await rm(path, { force: true });
      server = undefined;
    },
    [Symbol.asyncDispose]: () => api.kill(),
  };
  const handler = () =>
    connectNodeAdapter({
      routes: (router) => {
        router.service(SpiffeWorkloadAPI, {
          fetchX509SVID: (_request, context) => serve(context, (stream) => arrived.push(stream)),
          fetchJWTSVID: (request): JWTSVIDResponse => create(JWTSVIDResponseSchema, api.jwt(request)),
        });
      },
    });
  return api;
}

type Step = { readonly message: X509Message } | { readonly error: ConnectError } | "end";

async function* serve(
  context: HandlerContext,
  arrive: (stream: FakeStream) => void,
): AsyncGenerator<X509SVIDResponse> {
  const steps = createQueue<Step>();
  const over = Promise.withResolvers<void>();
  context.signal.addEventListener("abort", () => steps.push("end"), { once: true });
  arrive({
    header: context.requestHeader,
    send: (message) => steps.push({ message }),
    end: () => steps.push("end"),
    fail: (code, message) => steps.push({ error: new ConnectError(message, code) }),
    over: over.promise,
  });
  try {
    for (let step = await steps.next(); step !== "end"; step = await steps.next()) {
      if ("error" in step) throw step.error;
      yield create(X509SVIDResponseSchema, step.message);
    }
  } finally {
    over.resolve();
  }
}

function createQueue<T>() {
  const items: T[] = [];
  const takers: ((item: T) => void)[] = [];
  return {
    push: (item: T) => {
      const taker = takers.shift();
      if (taker === undefined) items.push(item);
      else taker(item);
    },
    next: (): Promise<T> => {
      const item = items.shift();
      return item === undefined ? new Promise((resolve) => takers.push(resolve)) : Promise.resolve(item);
    },
  };
}

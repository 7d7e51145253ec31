import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import {
  Code,
  ConnectError,
  createContextKey,
  createContextValues,
  type ConnectRouter,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { PingService } from "../../proto/gen/ping/v1/ping_pb.ts";
import { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createGiteaModel, type FakeRunner, type GiteaModel } from "./fake-gitea-model.ts";

export type GiteaMethod = "Register" | "Declare" | "FetchTask" | "UpdateTask" | "UpdateLog" | "Ping";

/** What goes wrong with one call. */
export type GiteaFault =
  /** Nothing is done; answered as Gitea answers. */
  | { readonly kind: "error"; readonly text: string }
  /** Done, but answered only then. */
  | { readonly kind: "slow"; readonly until: Promise<unknown> }
  /** Gitea takes its time before it does anything, as with a long poll. */
  | { readonly kind: "held"; readonly until: Promise<unknown> }
  /** Done, and the connection breaks before the answer. */
  | { readonly kind: "lost" }
  /** The connection breaks before anything is done. */
  | { readonly kind: "unreached" }
  /** FetchTask only: too many others pick at the moment. */
  | { readonly kind: "busy" };

export type GiteaCall = {
  readonly method: GiteaMethod;
  readonly request: unknown;
  /** Aborted when the caller has gone or its deadline has passed. */
  readonly signal: AbortSignal;
};

/** Gitea's runner API on 127.0.0.1, over HTTP/1.1, in memory. */
export type FakeGitea = GiteaModel &
  AsyncDisposable & {
    readonly url: string;
    /** Every call that arrived, in order. */
    readonly calls: readonly GiteaCall[];
    /** Resolves to that call of the method, the first unless given, as soon as it has arrived. */
    called(method: GiteaMethod, count?: number): Promise<GiteaCall>;
    /** The next call of the method goes wrong so; faults of one method queue up. */
    next(method: GiteaMethod, fault: GiteaFault): void;
    /** How many calls have arrived and are not answered. */
    inFlight(method: GiteaMethod): number;
  };

export const registrationToken = "registration-token";

const socketKey = createContextKey<Socket | undefined>(undefined);

export async function startFakeGitea(now: () => number = () => Date.now()): Promise<FakeGitea> {
  const model = createGiteaModel(now);
  const faults = new Map<string, GiteaFault[]>();
  const calls: GiteaCall[] = [];
  const open = new Map<string, number>();
  let watchers: (() => void)[] = [];

  const observe: Interceptor = (next) => async (request) => {
    const method = request.method.name as GiteaMethod;
    const fault = faults.get(method)?.shift();
    calls.push({ method, request: request.message, signal: request.signal });
    open.set(method, (open.get(method) ?? 0) + 1);
    for (const watcher of watchers) watcher();
    const cut = () => {
      request.contextValues.get(socketKey)?.destroy();
      return new ConnectError("cut", Code.Aborted);
    };
    try {
      if (fault?.kind === "error") throw new ConnectError(fault.text, Code.Unknown);
      if (fault?.kind === "unreached") throw cut();
      if (fault?.kind === "held") await fault.until;
      if (fault?.kind === "busy") request.contextValues.set(busyKey, true);
      if (fault?.kind === "lost") {
        await next(request).catch(() => undefined);
        throw cut();
      }
      const answer = await next(request);
      if (fault?.kind === "slow") await fault.until;
      return answer;
    } finally {
      open.set(method, (open.get(method) ?? 1) - 1);
    }
  };
  const server = createServer(
    connectNodeAdapter({
      routes: giteaRoutes(model),
      requestPathPrefix: "/api/actions",
      interceptors: [observe],
      contextValues: (request) => {
        const { socket } = request as IncomingMessage;
        return createContextValues().set(socketKey, socket);
      },
    }),
  );
  const url = await listen(server);

  return {
    ...model,
    url,
    calls,
    called: (method, count = 1) =>
      new Promise((resolve) => {
        const watcher = () => {
          const call = calls.filter((one) => one.method === method)[count - 1];
          if (call === undefined) return;
          watchers = watchers.filter((other) => other !== watcher);
          resolve(call);
        };
        watchers.push(watcher);
        watcher();
      }),
    next: (method, fault) => {
      faults.set(method, [...(faults.get(method) ?? []), fault]);
    },
    inFlight: (method) => open.get(method) ?? 0,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

const busyKey = createContextKey(false);

function giteaRoutes(model: GiteaModel) {
  const caller = ({ requestHeader }: HandlerContext) =>
    model.runnerOf(requestHeader.get("x-runner-uuid"), requestHeader.get("x-runner-token"));
  return (router: ConnectRouter) => {
    router.service(PingService, { ping: ({ data }) => ({ data: `Hello, ${data}!` }) });
    router.service(RunnerService, {
      register: ({ name, token, labels, version, capabilities }) =>
        asGitea(() => {
          if (token !== registrationToken)
            throw new Error("rpc error: code = NotFound desc = runner registration token not found");
          const runner = model.addRunner(labels, name);
          Object.assign(runner, { version, cancelling: capabilities.includes("cancelling") });
          return { runner: { ...wireRunner(runner), token: runner.token } };
        }),
      declare: ({ labels, version, capabilities }, context) =>
        asGitea(() => {
          const runner = caller(context);
          Object.assign(runner, { labels, version, cancelling: capabilities.includes("cancelling") });
          context.responseHeader.set("x-gitea-actions-capabilities", "job-summary");
          return { runner: wireRunner(runner) };
        }),
      fetchTask: ({ tasksVersion }, context) =>
        asGitea(() =>
          model.fetchTask(caller(context), tasksVersion, context.values.get(busyKey), context.signal),
        ),
      updateTask: (request, context) => asGitea(() => model.updateTask(caller(context), request)),
      updateLog: (request, context) => asGitea(() => model.updateLog(caller(context), request)),
    });
  };
}

function wireRunner({ id, uuid, name, version, labels }: FakeRunner) {
  return { id, uuid, name, version, labels: [...labels] };
}

/** Whatever a handler of Gitea's returns as an error has the code `unknown`. */
function asGitea<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ConnectError(error instanceof Error ? error.message : "unknown", Code.Unknown);
  }
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

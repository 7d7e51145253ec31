import { once } from "node:events";
import { createServer, type ServerHttp2Session } from "node:http2";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter, Http2SessionManager } from "@connectrpc/connect-node";
import { actionsPath, callHeaders } from "../../controller/assignment/executor-call.ts";
import type { FacadeSessions } from "../../controller/bootstrap/facade-client.ts";
import {
  Result,
  RunnerService,
  type Task,
  type UpdateLogRequest,
  type UpdateTaskRequest,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";

export type FacadeRpc = "declare" | "fetchTask" | "updateTask" | "updateLog";

/** A facade of a test's own: it keeps log and state of one task as Gitea would, and fails when told to. */
export type FakeFacade = {
  /** In the order in which they came, failed ones too. */
  readonly calls: FacadeRpc[];
  /** The headers of each call, in the same order. */
  readonly headers: Headers[];
  readonly states: UpdateTaskRequest[];
  readonly logs: UpdateLogRequest[];
  /** The stored rows; there were `logRows` of the controller's before the test. */
  readonly rows: string[];
  task: Task | undefined;
  logRows: number;
  /** What the header of a claim says instead of `logRows`. */
  logRowsHeader: string | undefined;
  /** What Gitea says of the task in answers to UpdateTask. */
  result: Result;
  capabilities: string | undefined;
  /** Whether Gitea's store of logs works. */
  takesRows: boolean;
  /** Names of outputs that Gitea does not take. */
  readonly refusedOutputs: Set<string>;
  /** Lets the next calls of that kind fail. */
  failNext(rpc: FacadeRpc, code: Code, times?: number): void;
  /** Lets calls of that kind fail until `recover`. */
  fail(rpc: FacadeRpc, code: Code): void;
  recover(rpc: FacadeRpc): void;
  /** Takes the next call of that kind, does what it asks for, and never answers. */
  loseNextAnswer(rpc: FacadeRpc): void;
  /** Lets the next call of that kind hang, and does nothing. */
  hangNext(rpc: FacadeRpc): void;
  /** Resolves as soon as there were `count` calls of that kind. */
  called(rpc: FacadeRpc, count?: number): Promise<void>;
  readonly routes: (router: ConnectRouter) => void;
};

export function createFakeFacade(overrides: Partial<Pick<FakeFacade, "task" | "logRows">> = {}): FakeFacade {
  const next = new Map<FacadeRpc, Code[]>();
  const always = new Map<FacadeRpc, Code>();
  const lost = new Set<FacadeRpc>();
  const hanging = new Set<FacadeRpc>();
  let watchers: { readonly rpc: FacadeRpc; readonly count: number; done(): void }[] = [];
  const countOf = (rpc: FacadeRpc) => facade.calls.filter((call) => call === rpc).length;

  const enter = async (rpc: FacadeRpc, context: HandlerContext) => {
    facade.calls.push(rpc);
    facade.headers.push(context.requestHeader);
    for (const watcher of watchers) if (countOf(watcher.rpc) >= watcher.count) watcher.done();
    watchers = watchers.filter((watcher) => countOf(watcher.rpc) < watcher.count);
    const code = next.get(rpc)?.shift() ?? always.get(rpc);
    if (code !== undefined) throw new ConnectError("told to fail", code);
    if (hanging.delete(rpc)) await callersEnd(context);
  };
  const leave = async (rpc: FacadeRpc, context: HandlerContext) => {
    if (lost.delete(rpc)) await callersEnd(context);
  };

  const facade: FakeFacade = {
    calls: [],
    headers: [],
    states: [],
    logs: [],
    rows: [],
    task: undefined,
    logRows: 0,
    logRowsHeader: undefined,
    result: Result.UNSPECIFIED,
    capabilities: undefined,
    takesRows: true,
    refusedOutputs: new Set(),
    ...overrides,
    failNext: (rpc, code, times = 1) => {
      next.set(rpc, [...(next.get(rpc) ?? []), ...Array<Code>(times).fill(code)]);
    },
    fail: (rpc, code) => always.set(rpc, code),
    recover: (rpc) => always.delete(rpc),
    loseNextAnswer: (rpc) => lost.add(rpc),
    hangNext: (rpc) => hanging.add(rpc),
    called: (rpc, count = 1) =>
      new Promise((resolve) => {
        if (countOf(rpc) >= count) resolve();
        else watchers.push({ rpc, count, done: resolve });
      }),
    routes: (router) => {
      router.service(RunnerService, {
        declare: async (request, context) => {
          await enter("declare", context);
          if (facade.capabilities !== undefined)
            context.responseHeader.set("x-gitea-actions-capabilities", facade.capabilities);
          return { runner: { version: request.version, labels: request.labels } };
        },
        fetchTask: async (_, context) => {
          await enter("fetchTask", context);
          return { ...(facade.task === undefined ? {} : { task: facade.task }), tasksVersion: 1n };
        },
        updateTask: async (request, context) => {
          await enter("updateTask", context);
          facade.states.push(request);
          await leave("updateTask", context);
          context.responseHeader.set(callHeaders.logRows, facade.logRowsHeader ?? String(facade.logRows));
          const said = request.state?.result ?? Result.UNSPECIFIED;
          if (facade.result === Result.UNSPECIFIED) facade.result = said;
          return create(UpdateTaskResponseSchema, {
            state: { id: request.state?.id ?? 0n, result: facade.result },
            sentOutputs: Object.keys(request.outputs).filter((name) => !facade.refusedOutputs.has(name)),
          });
        },
        updateLog: async (request, context) => {
          await enter("updateLog", context);
          facade.logs.push(request);
          if (!facade.takesRows && request.rows.length > 0)
            throw new ConnectError("transfer logs", Code.Unavailable);
          const stored = facade.logRows + facade.rows.length;
          const from = stored - Number(request.index);
          if (from >= 0) facade.rows.push(...request.rows.slice(from).map((row) => row.content));
          await leave("updateLog", context);
          return { ackIndex: BigInt(facade.logRows + facade.rows.length) };
        },
      });
    },
  };
  return facade;
}

async function callersEnd({ signal }: HandlerContext): Promise<never> {
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  throw new ConnectError("nobody listens", Code.Canceled);
}

/** The facade behind HTTP/2 without TLS. */
export type FacadeServer = AsyncDisposable & {
  readonly url: string;
  readonly sessions: FacadeSessions;
  /** Connections so far. */
  connections(): number;
  /** Answers the next requests with an HTTP status, as a gateway in front does whose facade is away. */
  gatewayErrors(...statuses: readonly number[]): void;
};

export async function serveFacade(facade: Pick<FakeFacade, "routes">): Promise<FacadeServer> {
  const handle = connectNodeAdapter({ routes: facade.routes, requestPathPrefix: actionsPath });
  const pending: number[] = [];
  const open = new Set<ServerHttp2Session>();
  let connections = 0;
  const server = createServer((request, response) => {
    const status = pending.shift();
    if (status === undefined) return handle(request, response);
    request.resume();
    response.writeHead(status, { "content-type": "text/html" }).end("<html>bad gateway</html>");
  });
  server.on("session", (session) => {
    connections++;
    open.add(session);
    session.once("close", () => open.delete(session));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the fake facade has no port");
  const url = `http://127.0.0.1:${address.port}`;
  const sessionManager = new Http2SessionManager(url);
  return {
    url,
    sessions: { sessionManager, redial: () => sessionManager.abort() },
    connections: () => connections,
    gatewayErrors: (...statuses) => void pending.push(...statuses),
    [Symbol.asyncDispose]: async () => {
      sessionManager.abort();
      for (const session of open) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

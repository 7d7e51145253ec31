import { Agent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import {
  RunnerService,
  type FetchTaskResponse,
  type Runner,
  type UpdateLogRequestSchema,
  type UpdateLogResponse,
  type UpdateTaskRequestSchema,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { actionsPath } from "../assignment/executor-call.ts";
import { fromGitea, type GiteaFault } from "../protocol/errors.ts";

/** Gitea as a registered runner sees it. Every call rejects with GiteaError; the caller decides on a retry. */
export type RunnerClient = {
  /** Replaces the registration's labels, version and capabilities; resolves to its row (without the token). */
  declare(labels: readonly string[], signal: AbortSignal): Promise<Runner | undefined>;
  /**
   * Asks for a task. Takes no signal on purpose: a call that is cut short after Gitea chose a task loses that
   * task for good. Bounded by `fetchTimeoutMs`, which is more than any answer takes.
   */
  fetchTask(tasksVersion: bigint): Promise<FetchTaskResponse>;
  updateTask(
    request: MessageInitShape<typeof UpdateTaskRequestSchema>,
    signal: AbortSignal,
  ): Promise<UpdateTaskResponse>;
  /** Never two at once for one task: Gitea does not lock its log. */
  updateLog(
    request: MessageInitShape<typeof UpdateLogRequestSchema>,
    signal: AbortSignal,
  ): Promise<UpdateLogResponse>;
  /** Closes idle connections. */
  close(): void;
};

export type RunnerClientOptions = {
  readonly url: string;
  readonly uuid: string;
  readonly token: string;
  /** Told to Gitea as the runner's version. */
  readonly version: string;
  /** For all calls but FetchTask. */
  readonly callTimeoutMs?: number;
  /** A held request (long poll) stays below 60 s. */
  readonly fetchTimeoutMs?: number;
  /** Called for each answer of Gitea's, with what it says no with. */
  readonly onAnswer?: (fault: GiteaFault | undefined) => void;
};

export function createRunnerClient(options: RunnerClientOptions): RunnerClient {
  const { callTimeoutMs = 10_000, fetchTimeoutMs = 75_000, onAnswer = () => undefined } = options;
  const identify: Interceptor = (next) => (request) => {
    request.header.set("x-runner-uuid", options.uuid);
    request.header.set("x-runner-token", options.token);
    request.header.set("user-agent", options.version);
    return next(request);
  };
  const call = async <T>(doing: string, result: Promise<T>): Promise<T> => {
    try {
      const answer = await result;
      onAnswer(undefined);
      return answer;
    } catch (error) {
      const failure = fromGitea(doing, error);
      if (failure.answered) onAnswer(failure.fault);
      throw failure;
    }
  };
  const base = options.url.replace(/\/+$/, "");
  const agent = base.startsWith("https:")
    ? new TlsAgent({ keepAlive: true })
    : new Agent({ keepAlive: true });
  const client = createClient(
    RunnerService,
    createConnectTransport({
      baseUrl: `${base}${actionsPath}`,
      httpVersion: "1.1",
      useBinaryFormat: true,
      nodeOptions: { agent },
      interceptors: [identify],
    }),
  );
  return {
    declare: async (labels, signal) => {
      const request = { version: options.version, labels: [...labels], capabilities: ["cancelling"] };
      const answer = client.declare(request, { signal, timeoutMs: callTimeoutMs });
      return (await call("declaring the runner to Gitea", answer)).runner;
    },
    fetchTask: (tasksVersion) =>
      call("fetching a task from Gitea", client.fetchTask({ tasksVersion }, { timeoutMs: fetchTimeoutMs })),
    updateTask: (request, signal) =>
      call(
        `updating task ${request.state?.id} in Gitea`,
        client.updateTask(request, { signal, timeoutMs: callTimeoutMs }),
      ),
    updateLog: (request, signal) =>
      call(
        `writing the log of task ${request.taskId} in Gitea`,
        client.updateLog(request, { signal, timeoutMs: callTimeoutMs }),
      ),
    close: () => {
      agent.destroy();
    },
  };
}

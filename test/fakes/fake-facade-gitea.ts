import { create } from "@bufbuild/protobuf";
import type { RunnerServiceOptions } from "../../controller/facade/runner-service.ts";
import {
  type Result,
  type UpdateLogRequest,
  UpdateLogResponseSchema,
  type UpdateTaskRequest,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";

type Upstream = RunnerServiceOptions["gitea"];
type Method = keyof Upstream;

/** Gitea as the facade calls it; it answers with the result that it is told, unless a test sets another. */
export type FakeFacadeGitea = Upstream & {
  /** In order, also those that failed. */
  readonly calls: readonly Method[];
  readonly states: readonly UpdateTaskRequest[];
  readonly logs: readonly UpdateLogRequest[];
  /** What Gitea says of the task, whatever it is told. */
  says: Result | undefined;
  /** Rows that the log has. */
  rows: number;
  /** Added to each answer to UpdateTask. */
  unknown: NonNullable<UpdateTaskRequest["$unknown"]>;
  /** The next call rejects; with `done` after it took effect, as when the answer is lost. */
  failNext(method: Method, error: Error, options?: { readonly done?: boolean }): void;
  /** Calls of the method wait until the returned function is called. */
  hold(method: Method): () => void;
  /** How many calls are under way now, and how many were at most. */
  readonly busy: { now: number; most: number };
};

export function createFakeFacadeGitea(): FakeFacadeGitea {
  const calls: Method[] = [];
  const states: UpdateTaskRequest[] = [];
  const logs: UpdateLogRequest[] = [];
  const failures: { readonly method: Method; readonly error: Error; readonly done: boolean }[] = [];
  const holds = new Map<Method, Promise<void>>();
  const busy = { now: 0, most: 0 };

  const call = async <T>(method: Method, signal: AbortSignal, effect: () => T): Promise<T> => {
    calls.push(method);
    busy.most = Math.max(busy.most, ++busy.now);
    try {
      await holds.get(method);
      signal.throwIfAborted();
      // As over a network: never at once.
      await new Promise((resolve) => setImmediate(resolve));
      const index = failures.findIndex((failure) => failure.method === method);
      const [failure] = index === -1 ? [] : failures.splice(index, 1);
      if (failure !== undefined && !failure.done) throw failure.error;
      const result = effect();
      if (failure !== undefined) throw failure.error;
      return result;
    } finally {
      busy.now--;
    }
  };

  const fake: FakeFacadeGitea = {
    calls,
    states,
    logs,
    says: undefined,
    rows: 0,
    unknown: [],
    busy,
    failNext: (method, error, { done = false } = {}) => void failures.push({ method, error, done }),
    hold: (method) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holds.set(method, promise);
      return () => {
        holds.delete(method);
        resolve();
      };
    },
    updateTask: (request, signal) =>
      call("updateTask", signal, () => {
        states.push(request);
        const { id = 0n, result = 0 } = request.state ?? {};
        const answer = create(UpdateTaskResponseSchema, {
          state: { id, result: fake.says ?? result },
          sentOutputs: Object.keys(request.outputs),
        });
        answer.$unknown = [...fake.unknown];
        return answer;
      }),
    updateLog: (request, signal) =>
      call("updateLog", signal, () => {
        logs.push(request);
        return create(UpdateLogResponseSchema, { ackIndex: request.index + BigInt(request.rows.length) });
      }),
    storedRows: (_taskId, signal) => call("storedRows", signal, () => fake.rows),
  };
  return fake;
}

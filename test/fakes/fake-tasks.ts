import type { TaskResult } from "../../controller/assignment/record.ts";

export type Said = "running" | TaskResult | "gone";

/** Tasks in Gitea: what it says of them, and what it was told. The first result of a task stays. */
export type FakeTasks = {
  beat(taskId: bigint, signal: AbortSignal): Promise<Said>;
  reportEnd(
    taskId: bigint,
    result: TaskResult,
    reason: readonly string[],
    signal: AbortSignal,
  ): Promise<TaskResult | "gone">;
  /** By task id; "running" unless set. */
  readonly says: Map<bigint, Said>;
  readonly beats: readonly bigint[];
  readonly ends: readonly {
    readonly taskId: bigint;
    readonly result: TaskResult;
    readonly reason: readonly string[];
  }[];
  /** Gitea answers no beat of this task any more. */
  hang(taskId: bigint): void;
  /** The next call rejects; with `done` after it took effect, as when the answer is lost. */
  failNext(method: "beat" | "reportEnd", error: Error, options?: { readonly done?: boolean }): void;
};

export function createFakeTasks(): FakeTasks {
  const says = new Map<bigint, Said>();
  const beats: bigint[] = [];
  const hanging = new Set<bigint>();
  const ends: { taskId: bigint; result: TaskResult; reason: readonly string[] }[] = [];
  const failures: { readonly method: string; readonly error: Error; readonly done: boolean }[] = [];

  const call = async <T>(method: string, signal: AbortSignal, effect: () => T): Promise<T> => {
    signal.throwIfAborted();
    // As over a network: never at once.
    await Promise.resolve();
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined && !failure.done) throw failure.error;
    const result = effect();
    if (failure !== undefined) throw failure.error;
    return result;
  };

  return {
    says,
    beats,
    ends,
    hang: (taskId) => void hanging.add(taskId),
    failNext: (method, error, { done = false } = {}) => void failures.push({ method, error, done }),
    beat: (taskId, signal) => {
      beats.push(taskId);
      if (hanging.has(taskId)) return new Promise<never>(() => undefined);
      return call("beat", signal, () => says.get(taskId) ?? "running");
    },
    reportEnd: (taskId, result, reason, signal) => {
      ends.push({ taskId, result, reason });
      return call("reportEnd", signal, () => {
        const said = says.get(taskId) ?? "running";
        if (said === "running") says.set(taskId, result);
        return said === "running" ? result : said;
      });
    },
  };
}

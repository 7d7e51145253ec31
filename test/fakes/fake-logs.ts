/** The logs of tasks in Gitea, for rows of the controller. Rows may be added only behind the last one. */
export type FakeLogs = {
  storedRows(taskId: bigint, signal: AbortSignal): Promise<number>;
  appendRow(taskId: bigint, index: number, text: string, signal: AbortSignal): Promise<void>;
  of(taskId: bigint): readonly string[];
  /** Somebody else has written rows. */
  add(taskId: bigint, ...rows: readonly string[]): void;
  /** The next call rejects; with `done` after it took effect, as when the answer is lost. */
  failNext(method: "storedRows" | "appendRow", error: Error, options?: { readonly done?: boolean }): void;
  /** Calls wait before they do anything until the returned function is called. */
  hold(): () => void;
};

export function createFakeLogs(): FakeLogs {
  const logs = new Map<bigint, string[]>();
  const failures: { readonly method: string; readonly error: Error; readonly done: boolean }[] = [];
  let held: Promise<void> = Promise.resolve();
  const rowsOf = (taskId: bigint) => logs.get(taskId) ?? [];

  const call = async <T>(method: string, signal: AbortSignal, effect: () => T): Promise<T> => {
    signal.throwIfAborted();
    await held;
    signal.throwIfAborted();
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined && !failure.done) throw failure.error;
    const result = effect();
    if (failure !== undefined) throw failure.error;
    return result;
  };

  return {
    storedRows: (taskId, signal) => call("storedRows", signal, () => rowsOf(taskId).length),
    appendRow: (taskId, index, text, signal) =>
      call("appendRow", signal, () => {
        const rows = rowsOf(taskId);
        if (rows.length !== index) throw new Error(`row ${index} is not the next one of ${rows.length}`);
        logs.set(taskId, [...rows, text]);
      }),
    of: rowsOf,
    add: (taskId, ...rows) => void logs.set(taskId, [...rowsOf(taskId), ...rows]),
    failNext: (method, error, { done = false } = {}) => void failures.push({ method, error, done }),
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return resolve;
    },
  };
}

import { ReportTooLargeError } from "../../controller/assignment/errors.ts";
import type { StoredReport, TaskResult } from "../../controller/assignment/record.ts";

export type ReportMethod = "put" | "get" | "remove";

/** Reports in memory, as the facade stores them and their delivery reads them. */
export type FakeReportStore = {
  put(id: string, result: TaskResult, bytes: Uint8Array, signal: AbortSignal): Promise<StoredReport>;
  get(id: string, report: StoredReport, signal: AbortSignal): Promise<Uint8Array | undefined>;
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** What is stored, by assignment and key. */
  readonly stored: ReadonlyMap<string, Uint8Array>;
  /** In order, also those that failed. */
  readonly calls: readonly ReportMethod[];
  /** Larger ones are refused for ever. */
  maxBytes: number;
  /** The next call of the method rejects; with `done` after it took effect, as when the answer is lost. */
  failNext(method: ReportMethod, error: Error, options?: { readonly done?: boolean }): void;
  /** Calls of the method wait until the returned function is called. */
  hold(method: ReportMethod): () => void;
  /** Nobody will ever read them again. */
  lose(): void;
};

export function createFakeReportStore(): FakeReportStore {
  const stored = new Map<string, Uint8Array>();
  const calls: ReportMethod[] = [];
  const failures: { readonly method: ReportMethod; readonly error: Error; readonly done: boolean }[] = [];
  const holds = new Map<ReportMethod, Promise<void>>();
  let number = 0;

  const call = async <T>(method: ReportMethod, signal: AbortSignal, effect: () => T): Promise<T> => {
    calls.push(method);
    signal.throwIfAborted();
    // As over a network: never at once.
    await Promise.resolve();
    await holds.get(method);
    signal.throwIfAborted();
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined && !failure.done) throw failure.error;
    const result = effect();
    if (failure !== undefined) throw failure.error;
    return result;
  };

  const fake: FakeReportStore = {
    stored,
    calls,
    maxBytes: Infinity,
    put: (id, result, bytes, signal) =>
      call("put", signal, () => {
        if (bytes.length > fake.maxBytes)
          throw new ReportTooLargeError(`it has ${bytes.length} bytes, ${fake.maxBytes} are possible`);
        const key = `report-${++number}`;
        stored.set(`${id}.${key}`, bytes);
        return { result, key, parts: 1, bytes: bytes.length };
      }),
    get: (id, { key }, signal) => call("get", signal, () => stored.get(`${id}.${key}`)),
    remove: (id, signal) =>
      call("remove", signal, () => {
        for (const name of stored.keys()) if (name.startsWith(`${id}.`)) stored.delete(name);
      }),
    failNext: (method, error, { done = false } = {}) => void failures.push({ method, error, done }),
    hold: (method) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holds.set(method, promise);
      return () => {
        holds.delete(method);
        resolve();
      };
    },
    lose: () => stored.clear(),
  };
  return fake;
}

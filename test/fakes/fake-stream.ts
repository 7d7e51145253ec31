import type { Assignment } from "../../controller/assignment/assignment.ts";
import type { QueuedMessage } from "../../controller/lifecycle/recover.ts";

type Content = QueuedMessage["content"];
type Task = {
  readonly assignment: Assignment;
  readonly fetchedAt: number;
  readonly compressedTask: Uint8Array;
};

export type StreamMethod = "position" | "has" | "publish" | "remove" | "scan";

/** The stream of assignments without its consumers: what is in it, and how it gets lost. */
export type FakeStream = {
  scan(signal: AbortSignal): AsyncIterable<QueuedMessage>;
  scanAfter(sequence: number, signal: AbortSignal): AsyncIterable<QueuedMessage>;
  position(signal: AbortSignal): Promise<{
    readonly created: string;
    readonly lastSequence: number;
    readonly messages: number;
  }>;
  has(sequence: number, id: string, signal: AbortSignal): Promise<boolean>;
  /** As JetStream does, drops what repeats a message id, also when the first message is gone. */
  publish(task: Task & { readonly replaces?: number }, signal: AbortSignal): Promise<{ sequence: number }>;
  remove(sequence: number, id: string, signal: AbortSignal): Promise<"removed" | "gone" | "other">;
  /** Puts anything into it. */
  put(content: Content): number;
  readonly messages: ReadonlyMap<number, Content>;
  /** All calls, in order, scans aside. */
  readonly calls: readonly string[];
  failNext(method: StreamMethod, error: Error, options?: { readonly done?: boolean }): void;
  /** The message is gone, however that came. */
  drop(sequence: number): void;
  /** The end of the stream is gone, its sequences are used again. */
  loseTail(from: number): void;
  /** The stream is gone and made anew. */
  lose(): void;
};

export function createFakeStream(): FakeStream {
  const messages = new Map<number, Content>();
  const known = new Map<string, number>();
  const calls: string[] = [];
  const failures: { readonly method: StreamMethod; readonly error: Error; readonly done: boolean }[] = [];
  let last = 0;
  let created = 1;

  const call = async <T>(method: StreamMethod, signal: AbortSignal, effect: () => T): Promise<T> => {
    calls.push(method);
    signal.throwIfAborted();
    await Promise.resolve();
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined && !failure.done) throw failure.error;
    const result = effect();
    if (failure !== undefined) throw failure.error;
    return result;
  };
  const idOf = (content: Content | undefined) =>
    content?.kind === "assignment" ? content.assignment.id : content?.assignmentId;
  const put = (content: Content): number => {
    messages.set(++last, content);
    return last;
  };
  async function* scanAfter(after: number): AsyncGenerator<QueuedMessage> {
    for (let sequence = after; ;) {
      await Promise.resolve();
      const next = [...messages.keys()].find((each) => each > sequence);
      const content = next === undefined ? undefined : messages.get(next);
      if (next === undefined || content === undefined) return;
      yield { sequence: next, content };
      sequence = next;
    }
  }

  return {
    messages,
    calls,
    scan: () => scanAfter(0),
    scanAfter: (sequence) => scanAfter(sequence),
    position: (signal) =>
      call("position", signal, () => ({
        created: String(created),
        lastSequence: last,
        messages: messages.size,
      })),
    has: (sequence, id, signal) => call("has", signal, () => idOf(messages.get(sequence)) === id),
    publish: ({ assignment, fetchedAt, compressedTask, replaces }, signal) =>
      call("publish", signal, () => {
        const messageId = `${assignment.id} ${replaces}`;
        const sequence =
          known.get(messageId) ?? put({ kind: "assignment", assignment, fetchedAt, compressedTask });
        known.set(messageId, sequence);
        return { sequence };
      }),
    remove: (sequence, id, signal) =>
      call("remove", signal, () => {
        const there = idOf(messages.get(sequence));
        if (there === undefined) return "gone";
        if (there !== id) return "other";
        messages.delete(sequence);
        return "removed";
      }),
    put,
    failNext: (method, error, { done = false } = {}) => void failures.push({ method, error, done }),
    drop: (sequence) => void messages.delete(sequence),
    loseTail: (from) => {
      for (const sequence of messages.keys()) if (sequence >= from) messages.delete(sequence);
      last = from - 1;
      known.clear();
    },
    lose: () => {
      messages.clear();
      known.clear();
      last = 0;
      created++;
    },
  };
}

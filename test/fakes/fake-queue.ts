import type { Assignment } from "../../controller/assignment/assignment.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { Clock } from "../../controller/platform/clock.ts";
import { createWakeup } from "../../controller/platform/wakeup.ts";
import type { Delivery, DeliveryContent } from "../../controller/worker/delivery.ts";
import { anAssignment, testStart } from "../support/builders.ts";

type Message = {
  readonly sequence: number;
  readonly backend: BackendKind;
  readonly content: DeliveryContent;
  deliveryCount: number;
  /** Not delivered before. */
  due: number;
  inHand: boolean;
};

/** What was said to the queue about a message. */
export type QueueWord = {
  readonly sequence: number;
  readonly word: "in progress" | "again" | "rejected" | "acknowledged";
  readonly ms?: number;
  readonly reason?: string;
};

/** The queue's side of a worker, in memory and in the clock's time; it delivers as JetStream does. */
export type FakeQueue = {
  next(
    backend: BackendKind,
    options: { readonly expiresMs: number },
    signal: AbortSignal,
  ): Promise<Delivery | undefined>;
  remove(sequence: number, id: string, signal: AbortSignal): Promise<"removed" | "gone" | "other">;
  scan(): AsyncIterable<{ readonly sequence: number; readonly content: DeliveryContent }>;
  /** Puts a message into the stream and answers its sequence. */
  publish(content: DeliveryContent, backend?: BackendKind): number;
  readonly words: readonly QueueWord[];
  /** All but "in progress". */
  answers(): readonly QueueWord[];
  /** How often each message was delivered. */
  deliveries(sequence: number): number;
  /** How many messages there are. */
  readonly size: number;
  /** Pulls, in order. */
  readonly pulls: readonly BackendKind[];
  /** The ack wait of a message is over, though its worker still has it. */
  forget(sequence: number): void;
  /** An operator deletes a message. */
  drop(sequence: number): void;
  /** Its next delivery is the one after this many. */
  age(sequence: number, deliveryCount: number): void;
  failNext(method: "next" | "acknowledge" | "remove", error: Error): void;
  /** The next double ack is not confirmed. */
  denyNextAck(): void;
};

/** A message's content for task 42 of `acme/widgets`, unless something else is said. */
export function aContent(
  overrides: Partial<Assignment> = {},
): Extract<DeliveryContent, { kind: "assignment" }> {
  return {
    kind: "assignment",
    assignment: anAssignment(overrides),
    fetchedAt: testStart,
    compressedTask: Buffer.from("a task"),
  };
}

/** `maxAckPending`: as many messages of a backend may be in hand or handed back with a delay; others wait for them. */
export function createFakeQueue(clock: Clock, maxAckPending = Infinity): FakeQueue {
  const messages = new Map<number, Message>();
  const counts = new Map<number, number>();
  const words: QueueWord[] = [];
  const pulls: BackendKind[] = [];
  const failures: { readonly method: string; readonly error: Error }[] = [];
  const moved = createWakeup();
  let last = 0;
  let denied = 0;

  const failing = (method: string) => {
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined) throw failure.error;
  };
  const deliver = (message: Message): Delivery => {
    const { sequence, content } = message;
    message.inHand = true;
    message.deliveryCount++;
    counts.set(sequence, (counts.get(sequence) ?? 0) + 1);
    let open = true;
    return {
      sequence,
      deliveryCount: message.deliveryCount,
      content,
      inProgress: () => void words.push({ sequence, word: "in progress" }),
      retryLater: (ms) => {
        if (open) {
          words.push({ sequence, word: "again", ms });
          message.due = clock.now() + ms;
          message.inHand = false;
          moved.wake();
        }
        open = false;
      },
      reject: (reason) => {
        if (open) {
          words.push({ sequence, word: "rejected", reason });
          messages.delete(sequence);
        }
        open = false;
      },
      acknowledge: async (signal) => {
        signal.throwIfAborted();
        await Promise.resolve();
        failing("acknowledge");
        if (denied > 0) {
          denied--;
          return false;
        }
        words.push({ sequence, word: "acknowledged" });
        messages.delete(sequence);
        open = false;
        return true;
      },
    };
  };

  return {
    words,
    pulls,
    answers: () => words.filter(({ word }) => word !== "in progress"),
    deliveries: (sequence) => counts.get(sequence) ?? 0,
    get size() {
      return messages.size;
    },
    publish: (content, backend = content.kind === "assignment" ? content.assignment.backend : "pod") => {
      const sequence = ++last;
      const due = clock.now();
      messages.set(sequence, { sequence, backend, content, deliveryCount: 0, due, inHand: false });
      moved.wake();
      return sequence;
    },
    next: async (backend, { expiresMs }, signal) => {
      signal.throwIfAborted();
      pulls.push(backend);
      await Promise.resolve();
      failing("next");
      const end = clock.now() + expiresMs;
      for (;;) {
        const waiting = [...messages.values()].filter((one) => one.backend === backend && !one.inHand);
        // Redeliveries come first.
        const pending = [...messages.values()].filter((one) => one.backend === backend && isPending(one));
        const due = waiting
          .filter((one) => one.due <= clock.now() && (isPending(one) || pending.length < maxAckPending))
          .toSorted((a, b) => Number(b.deliveryCount > 0) - Number(a.deliveryCount > 0))[0];
        if (due !== undefined) return deliver(due);
        if (clock.now() >= end) return undefined;
        const round = new AbortController();
        const either = AbortSignal.any([signal, round.signal]);
        const later = waiting.map((one) => one.due).filter((at) => at > clock.now());
        const soonest = Math.min(end, ...later);
        const wake = Promise.race([moved.next(either), clock.sleep(soonest - clock.now(), either)]);
        try {
          await wake;
        } finally {
          round.abort();
        }
      }
    },
    remove: async (sequence, id, signal) => {
      signal.throwIfAborted();
      await Promise.resolve();
      failing("remove");
      const content = messages.get(sequence)?.content;
      if (content === undefined) return "gone";
      if (content.kind !== "assignment" || content.assignment.id !== id) return "other";
      messages.delete(sequence);
      return "removed";
    },
    scan: async function* () {
      for (const { sequence, content } of messages.values()) {
        await Promise.resolve();
        yield { sequence, content };
      }
    },
    forget: (sequence) => {
      const message = messages.get(sequence);
      if (message === undefined) return;
      message.inHand = false;
      message.due = clock.now();
      moved.wake();
    },
    drop: (sequence) => void messages.delete(sequence),
    age: (sequence, deliveryCount) => {
      const message = messages.get(sequence);
      if (message !== undefined) message.deliveryCount = deliveryCount;
    },
    failNext: (method, error) => void failures.push({ method, error }),
    denyNextAck: () => void denied++,
  };
}

/** Delivered, and neither acknowledged nor rejected. */
function isPending({ inHand, deliveryCount }: Message): boolean {
  return inHand || deliveryCount > 0;
}

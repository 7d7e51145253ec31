import type { BackendKind } from "../assignment/backend-kind.ts";
import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { createWakeup, listenForAny, type Wakeup } from "../platform/wakeup.ts";
import type { Delivery } from "./delivery.ts";
import { deliveryFromMemory, type HeldAssignment } from "./from-memory.ts";
import { renewable, type Renewable } from "./renewable-delivery.ts";
import { isSettled } from "./until-settled.ts";

export type WorkerQueue = {
  /** One pull; resolves to undefined when nothing came in time. */
  next(
    backend: BackendKind,
    options: { readonly expiresMs: number },
    signal: AbortSignal,
  ): Promise<Delivery | undefined>;
  /** Deletes the message at a sequence if it names that assignment. */
  remove(sequence: number, id: string, signal: AbortSignal): Promise<"removed" | "gone" | "other">;
};

export type WorkerOptions = {
  readonly kind: BackendKind;
  readonly queue: WorkerQueue;
  readonly slots: { free(): number; has(id: string): boolean; onChange(listener: () => void): () => void };
  readonly assignments: { all(): readonly HeldAssignment[] };
  readonly process: (delivery: Delivery, signal: AbortSignal) => Promise<void>;
  readonly report: (assignment: string | undefined, error: string) => void;
  readonly times: Times;
  readonly clock: Clock;
};

const pullMs = 2_000;

/**
 * The loop of one backend: pulls a message when there is a slot for it, or when a slot is held for an assignment
 * whose message has been handed back and is due again, and works on each beside the others. Ends, when asked to,
 * after every delivery in hand has been finished or handed back.
 *
 * A message that is handed back stays one of the few that the server lets be unacknowledged at a time, so one whose
 * key is missing would keep all others of its backend away for ever. As long as there is such a message, the
 * assignments behind it are taken from memory.
 */
export function createWorker(options: WorkerOptions) {
  const { kind, queue, slots, assignments, process, report, times, clock } = options;
  /** Deliveries in hand by assignment id; those that are no assignment have an id of their own. */
  const inHand = new Map<string, InHand>();
  /** When what was handed back comes again: a pull before that would only bring a message without a slot. */
  const dueAt = new Map<string, number>();
  /** Messages that nobody can read and nobody gives up, by sequence, with when each comes again. */
  const unreadable = new Map<number, number>();

  /** Assignments that hold a slot for an executor that has not claimed yet, and whose message is not in hand. */
  const handedBack = (): readonly string[] => {
    for (const id of dueAt.keys()) if (isOver(id)) dueAt.delete(id);
    return open()
      .map(({ record }) => record.assignment.id)
      .filter((id) => slots.has(id));
  };

  /** Those of this backend that are to get an executor and are not in hand. */
  const open = () =>
    assignments
      .all()
      .filter(({ record: { assignment } }) => assignment.backend === kind && !inHand.has(assignment.id))
      .filter((known) => !isSettled(known));

  const isOver = (id: string) => !slots.has(id) && (dueAt.get(id) ?? 0) <= clock.now();

  const hasFreeSlot = (): boolean => {
    const beforeSlot = [...inHand].filter(([id, { wantsSlot }]) => wantsSlot && !slots.has(id)).length;
    return slots.free() > beforeSlot;
  };

  /** Until there is room for a message, in milliseconds; Infinity if only a change makes some. */
  const untilRoom = (): number => {
    if (hasFreeSlot()) return 0;
    return Math.min(...handedBack().map((id) => Math.max(0, (dueAt.get(id) ?? 0) - clock.now())));
  };

  /** Whether a message that nobody can read is unacknowledged: in hand, or about to come again. */
  const blocked = (): boolean => {
    for (const [sequence, at] of unreadable)
      if (at + 2 * pullMs < clock.now() && !inHand.has(messageId(sequence))) unreadable.delete(sequence);
    return unreadable.size > 0;
  };

  /** The next assignment that the queue cannot deliver, if there is room for it. */
  const behindUnreadable = (): Delivery | undefined => {
    if (!blocked()) return undefined;
    const free = hasFreeSlot();
    const [next] = open()
      .filter(({ record: { assignment } }) => free || slots.has(assignment.id))
      .filter(({ record: { assignment } }) => (dueAt.get(assignment.id) ?? 0) <= clock.now())
      .toSorted((a, b) => a.record.sequence - b.record.sequence)
      .flatMap((held) => deliveryFromMemory(held, queue) ?? []);
    return next;
  };

  const start = (delivery: Delivery, signal: AbortSignal, finished: () => void) => {
    const { content, sequence } = delivery;
    const wantsSlot = content.kind === "assignment";
    const id = wantsSlot ? content.assignment.id : messageId(sequence);
    const known = inHand.get(id);
    if (known !== undefined) {
      // One handler for an assignment. Another message of it comes again when the first is through.
      if (!known.renew(delivery)) delivery.retryLater(times.retryMs);
      return;
    }
    dueAt.delete(id);
    if (content.kind === "unknown-key") unreadable.set(sequence, clock.now());
    const mine = renewable(delivery, (ms) => {
      dueAt.set(id, clock.now() + ms);
      if (!wantsSlot) unreadable.set(sequence, clock.now() + ms);
    });
    const handled = process(mine.delivery, signal)
      .catch((error: unknown) => {
        report(id, describeError(error));
      })
      .finally(() => {
        inHand.delete(id);
        finished();
      });
    inHand.set(id, { ...mine, wantsSlot, handled });
  };

  const pull = async (signal: AbortSignal): Promise<Delivery | undefined> => {
    try {
      return await queue.next(kind, { expiresMs: pullMs }, signal);
    } catch (error) {
      if (!signal.aborted) {
        report(undefined, describeError(error));
        await clock.sleep(times.againMs, signal).catch(() => undefined);
      }
      return undefined;
    }
  };

  return {
    run: async (signal: AbortSignal): Promise<void> => {
      const room = createWakeup();
      const stop = slots.onChange(() => {
        room.wake();
      });
      const finished = () => {
        room.wake();
      };
      try {
        while (!signal.aborted) {
          const ms = untilRoom();
          if (ms > 0) {
            await waitForRoom(room, ms, clock, signal);
            continue;
          }
          const delivery = behindUnreadable() ?? (await pull(signal));
          if (delivery === undefined) continue;
          if (signal.aborted) delivery.retryLater(0);
          else start(delivery, signal, finished);
        }
      } finally {
        stop();
        await Promise.all([...inHand.values()].map(({ handled }) => handled));
      }
    },
  };
}

type InHand = Renewable & {
  readonly handled: Promise<void>;
  /** What is no assignment is over without ever taking a slot. */
  readonly wantsSlot: boolean;
};

function messageId(sequence: number): string {
  return `message-${sequence}`;
}

async function waitForRoom(room: Wakeup, ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  const change = (either: AbortSignal) => room.next(either);
  const due = (either: AbortSignal) => clock.sleep(ms, either);
  using woken = listenForAny(ms === Infinity ? [change] : [change, due], signal);
  try {
    await woken.first();
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

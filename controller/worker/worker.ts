import type { BackendKind } from "../assignment/backend-kind.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { createWakeup, listenForAny, type Wakeup } from "../platform/wakeup.ts";
import type { Delivery } from "./delivery.ts";
import { renewable, type Renewable } from "./renewable-delivery.ts";

export type WorkerOptions = {
  readonly kind: BackendKind;
  readonly queue: {
    /** One pull; resolves to undefined when nothing came in time. */
    next(
      backend: BackendKind,
      options: { readonly expiresMs: number },
      signal: AbortSignal,
    ): Promise<Delivery | undefined>;
  };
  readonly slots: { free(): number; has(id: string): boolean; onChange(listener: () => void): () => void };
  readonly assignments: { all(): readonly { readonly record: AssignmentRecord }[] };
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
 */
export function createWorker(options: WorkerOptions) {
  const { kind, queue, slots, assignments, process, report, times, clock } = options;
  /** Deliveries in hand by assignment id; those that are no assignment have no id and are over in a moment. */
  const inHand = new Map<string, Renewable & { readonly handled: Promise<void> }>();
  /** When what was handed back comes again: a pull before that would only bring a message without a slot. */
  const dueAt = new Map<string, number>();

  /** Assignments that hold a slot for an executor that has not claimed yet, and whose message is not in hand. */
  const handedBack = (): readonly string[] => {
    for (const id of dueAt.keys()) if (!slots.has(id)) dueAt.delete(id);
    return assignments
      .all()
      .filter(({ record: { assignment, phase } }) => {
        const open = phase.name === "queued" || phase.name === "starting";
        return open && slots.has(assignment.id) && !inHand.has(assignment.id);
      })
      .map(({ record }) => record.assignment.id);
  };

  /** Until there is room for a message, in milliseconds; Infinity if only a change makes some. */
  const untilRoom = (): number => {
    const beforeSlot = [...inHand.keys()].filter((id) => !slots.has(id)).length;
    if (slots.free() > beforeSlot) return 0;
    return Math.min(...handedBack().map((id) => Math.max(0, (dueAt.get(id) ?? 0) - clock.now())));
  };

  const start = (delivery: Delivery, signal: AbortSignal, finished: () => void) => {
    const { content } = delivery;
    const id = content.kind === "assignment" ? content.assignment.id : `message-${delivery.sequence}`;
    const known = inHand.get(id);
    if (known !== undefined) {
      // One handler for an assignment. Another message of it comes again when the first is through.
      if (!known.renew(delivery)) delivery.retryLater(times.retryMs);
      return;
    }
    dueAt.delete(id);
    const mine = renewable(delivery, (ms) => {
      dueAt.set(id, clock.now() + ms);
    });
    const handled = process(mine.delivery, signal)
      .catch((error: unknown) => {
        report(id, describeError(error));
      })
      .finally(() => {
        inHand.delete(id);
        finished();
      });
    inHand.set(id, { ...mine, handled });
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
          const delivery = await pull(signal);
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

import type { BackendKind } from "../assignment/backend-kind.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { createWakeup } from "../platform/wakeup.ts";
import type { Delivery } from "./delivery.ts";

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
 * whose message has been handed back, and works on each beside the others. Ends, when asked to, after every
 * delivery in hand has been finished or handed back.
 */
export function createWorker(options: WorkerOptions) {
  const { kind, queue, slots, assignments, process, report, times, clock } = options;
  /** Deliveries in hand by assignment id; those that are no assignment have no id and are over in a moment. */
  const inHand = new Map<string, Promise<void>>();

  /** How many messages there is room for. */
  const wanted = () => {
    const beforeSlot = [...inHand.keys()].filter((id) => !slots.has(id)).length;
    const handedBack = assignments.all().filter(({ record: { assignment, phase } }) => {
      const open = phase.name === "queued" || phase.name === "starting";
      return assignment.backend === kind && open && slots.has(assignment.id) && !inHand.has(assignment.id);
    }).length;
    return Math.max(0, slots.free() - beforeSlot) + handedBack;
  };

  const start = (delivery: Delivery, signal: AbortSignal, finished: () => void) => {
    const { content } = delivery;
    const id = content.kind === "assignment" ? content.assignment.id : `message-${delivery.sequence}`;
    // One handler for an assignment: a second delivery of it comes again when the first is through.
    if (inHand.has(id)) {
      delivery.retryLater(times.againMs);
      return;
    }
    const handler = process(delivery, signal)
      .catch((error: unknown) => {
        report(id, describeError(error));
      })
      .finally(() => {
        inHand.delete(id);
        finished();
      });
    inHand.set(id, handler);
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
          if (wanted() === 0) {
            await waitForRoom(room.next(signal), signal);
            continue;
          }
          const delivery = await pull(signal);
          if (delivery === undefined) continue;
          if (signal.aborted) delivery.retryLater(0);
          else start(delivery, signal, finished);
        }
      } finally {
        stop();
        await Promise.all(inHand.values());
      }
    },
  };
}

async function waitForRoom(room: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await room;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

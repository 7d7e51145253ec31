import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import { nowAndThen } from "./now-and-then.ts";

/** A message that is sealed with a key that we do not have, and the assignment that it claims to be. */
export type SealedMessage = { readonly sequence: number; readonly assignmentId: string };

export type SealedMessagesOptions = {
  readonly queue: { has(sequence: number, assignmentId: string, signal: AbortSignal): Promise<boolean> };
  /** Hears of each of them again and again, as long as it is there. */
  readonly onSealed: (assignmentId: string) => void;
  readonly times: Pick<Times, "compareStreamMs" | "callMs">;
  readonly clock: Clock;
  readonly log: Logger;
};

/**
 * Remembers the messages that scans have met and that need another key. A worker without a free slot gets to see none
 * of them, and they would wait without anybody being told.
 */
export type SealedMessages = {
  found(message: SealedMessage): void;
  /** Looks once which are there still. */
  pass(signal: AbortSignal): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
};

/** One is enough to be told; the rest are counted. */
const mostLooked = 100;

export function createSealedMessages(options: SealedMessagesOptions): SealedMessages {
  const { queue, onSealed, times, clock, log } = options;
  const known = new Map<number, string>();

  const pass = async (signal: AbortSignal) => {
    for (const [sequence, id] of [...known].slice(0, mostLooked)) {
      const call = (deadline: AbortSignal) => queue.has(sequence, id, deadline);
      if (await withDeadline(clock, times.callMs, call, signal)) onSealed(id);
      else known.delete(sequence);
    }
  };

  return {
    found: ({ sequence, assignmentId }) => {
      known.set(sequence, assignmentId);
      onSealed(assignmentId);
    },
    pass,
    run: (signal) =>
      nowAndThen(
        { doing: "looking for sealed messages", everyMs: times.compareStreamMs, pass, clock, log },
        signal,
      ),
  };
}

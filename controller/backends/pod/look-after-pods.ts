import type { Clock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import type { Logger } from "../../platform/logger.ts";
import { listenForAny, type Wakeup } from "../../platform/wakeup.ts";

const longestMs = 60_000;
/** A timer may fire a little early, and an entry's age is of another clock: told now, or it may be told to nobody. */
const earlyMs = 50;
/** Between two tries. */
const recheckMs = 5_000;

/** Tells when time alone changes a state: nothing else does. Runs until the signal is aborted, and rejects then. */
export async function tellInTime(
  parts: {
    /** In milliseconds, by the clock that is given. */
    readonly changesAt: () => readonly number[];
    readonly moved: Wakeup;
    readonly changed: () => void;
    readonly clock: Clock;
  },
  signal: AbortSignal,
): Promise<void> {
  const { moved, changed, clock } = parts;
  for (;;) {
    const times = parts.changesAt();
    const next = Math.min(...times, clock.now() + longestMs);
    using woken = listenForAny(
      [(either) => moved.next(either), (either) => clock.sleep(next - clock.now(), either)],
      signal,
    );
    await woken.first();
    if (times.some((at) => at <= clock.now() + earlyMs)) changed();
  }
}

/** Asks the API for what the watch leaves open. Runs until the signal is aborted, and rejects then. */
export async function makeSure(
  parts: {
    /** Names of Pods of which it is not sure what they are. */
    readonly open: () => ReadonlySet<string>;
    readonly ask: (name: string, signal: AbortSignal) => Promise<unknown>;
    readonly suspected: Wakeup;
    readonly clock: Clock;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { suspected, clock, log } = parts;
  for (;;) {
    using woken = listenForAny(
      [(either) => suspected.next(either), (either) => clock.sleep(recheckMs, either)],
      signal,
    );
    for (const name of parts.open())
      try {
        await parts.ask(name, signal);
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ executor: name, error: describeError(error) }, "looking for a pod failed");
      }
    await woken.first();
  }
}

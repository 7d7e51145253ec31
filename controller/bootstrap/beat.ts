import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import type { Relay } from "./relay.ts";
import type { Times } from "./times.ts";

export type BeatOptions = {
  readonly relay: Pick<Relay, "beat" | "progress" | "refused">;
  readonly clock: Clock;
  readonly times: Pick<Times, "beatEvery" | "retryEvery">;
  readonly log: Logger;
};

/**
 * Keeps the facade from ever hearing nothing for longer than `beatEvery`: whatever gitea-runner does, the last
 * full state is said again. Ends when the runner has said how the job ended, when the facade refuses us, or
 * when the signal is aborted; never rejects.
 */
export async function keepBeating(options: BeatOptions, signal: AbortSignal): Promise<void> {
  const { relay, clock, times, log } = options;
  while (relay.progress().final.kind === "none" && !relay.refused.aborted && !signal.aborted) {
    const wait = relay.progress().answeredAt + times.beatEvery - clock.now();
    try {
      if (wait > 0) await clock.sleep(wait, signal);
      else await relay.beat();
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ error: describeError(error) }, "beat not answered");
      await clock.sleep(times.retryEvery, signal).catch(() => undefined);
    }
  }
}

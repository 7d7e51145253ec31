import type { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { abortable } from "../platform/signal.ts";
import { DeadlineError, withDeadline } from "./deadline.ts";
import type { Relay } from "./relay.ts";
import type { Times } from "./times.ts";

export type DeliveryOptions = {
  readonly relay: Pick<Relay, "result" | "waitingRows" | "refused">;
  readonly clock: Clock;
  readonly times: Pick<Times, "deliver">;
  readonly log: Logger;
};

/**
 * Waits until all that the relay holds is delivered, by `sending`, and resolves with the result that counts. A result
 * that was taken counts also when rows were left behind. Rejects with the facade's refusal or with DeadlineError.
 */
export async function deliverResult(options: DeliveryOptions, sending: Promise<void>): Promise<Result> {
  const { relay, clock, times, log } = options;
  const wait = (signal: AbortSignal) => abortable(sending, signal);
  try {
    await withDeadline(clock, times.deliver, wait, new AbortController().signal);
  } catch (error) {
    if (!(error instanceof DeadlineError) || relay.result() === undefined) throw error;
  }
  const result = relay.result();
  if (relay.waitingRows() > 0) log.warn({ rows: relay.waitingRows() }, "log rows left behind");
  if (result !== undefined) return result;
  relay.refused.throwIfAborted();
  throw new Error("no result was delivered: the facade took none, or the executor was told to end");
}

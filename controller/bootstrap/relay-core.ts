import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { listenForAny, type Wakeup } from "../platform/wakeup.ts";
import type { FacadeCall } from "./facade-calls.ts";
import type { Times } from "./times.ts";

/** What the two lanes of a relay share. */
export type RelayCore = {
  readonly clock: Clock;
  readonly times: RelayTimes;
  readonly log: Logger;
  readonly taskId: bigint;
  /** Woken when something has changed that one lane or the other waits for. */
  readonly changed: Wakeup;
  /** One call with a deadline; a refusal is remembered before it is thrown. */
  call<T>(run: FacadeCall<T>, signal: AbortSignal): Promise<T>;
  readonly refused: AbortSignal;
  /** Aborted when the executor is told to end, whatever the job does. */
  readonly stop: AbortSignal;
};

export type RelayTimes = Pick<Times, "call" | "retryEvery" | "beatEvery" | "logs" | "answer" | "room">;

/** Resolves when something changes, at the latest after `ms`; rejects with the signal's reason. Listens at once. */
export async function nextChange(
  { clock, changed }: Pick<RelayCore, "clock" | "changed">,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  using either = listenForAny([(inner) => clock.sleep(ms, inner), (inner) => changed.next(inner)], signal);
  await either.first();
}

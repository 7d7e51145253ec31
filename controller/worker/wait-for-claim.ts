import type { Failure } from "../assignment/failure.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { withDeadline } from "../platform/signal.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";
import { isPermanent, waitingFor } from "./attempt-history.ts";
import { isSettled, type WatchedAssignments } from "./until-settled.ts";

export type ClaimWait =
  | { readonly kind: "settled" }
  | { readonly kind: "timeout" }
  /** It has ended, is gone, or will never run: what that means has to be decided. */
  | { readonly kind: "look again" };

export type WaitForClaimOptions = {
  readonly backend: Backend;
  readonly assignments: WatchedAssignments;
  /** Hears why a job waits, for its log; undefined when it waits for nothing any more. */
  readonly waits: (id: string, failure: Failure | undefined) => void;
  /** How long a claim is waited for, and how long the backend may take for one answer. */
  readonly times: Pick<Times, "claimMs" | "callMs">;
  readonly clock: Clock;
};

/** Waits until the record has a claim or an end, the executor has ended or cannot run, or the time is over. */
export function createWaitForClaim({ backend, assignments, waits, times, clock }: WaitForClaimOptions) {
  return async (id: string, executor: Executor, signal: AbortSignal): Promise<ClaimWait> => {
    const deadline = clock.now() + times.claimMs;
    const moved = createWakeup();
    // Of other jobs' changes no list is needed: with many jobs there is one all the time.
    let asks = true;
    const stop = backend.onChange((name) => {
      if (name !== undefined && name !== executor.name) return;
      asks = true;
      moved.wake();
    });
    try {
      for (;;) {
        using woken = listenForAny(
          [
            (either) => assignments.changed(either),
            (either) => moved.next(either),
            (either) => clock.sleep(Math.max(0, deadline - clock.now()), either),
          ],
          signal,
        );
        if (isSettled(assignments.get(id))) return { kind: "settled" };
        if (asks) {
          asks = false;
          const now = await look(id, executor, signal);
          if (now !== undefined) return now;
        }
        if (clock.now() >= deadline) return { kind: "timeout" };
        await woken.first();
      }
    } finally {
      stop();
    }
  };

  async function look(id: string, executor: Executor, signal: AbortSignal): Promise<ClaimWait | undefined> {
    const { executors } = await withDeadline(
      clock,
      times.callMs,
      (deadline) => backend.list(deadline),
      signal,
    );
    // It may have claimed and ended while the list was made.
    if (isSettled(assignments.get(id))) return { kind: "settled" };
    const now = executors.find((one) => one.name === executor.name);
    if (now === undefined || now.state.phase === "ended") return { kind: "look again" };
    const waiting = waitingFor(now.state);
    waits(id, waiting);
    return waiting !== undefined && isPermanent(waiting) ? { kind: "look again" } : undefined;
  }
}

import type { AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { withDeadline } from "../platform/signal.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";
import type { ClaimWait } from "./process-delivery.ts";

export type WaitForClaimOptions = {
  readonly backend: Backend;
  readonly assignments: {
    get(id: string): { readonly record: AssignmentRecord } | undefined;
    /** Resolves when any assignment has changed. */
    changed(signal: AbortSignal): Promise<void>;
  };
  /** How long a claim is waited for, and how long the backend may take for one answer. */
  readonly times: Pick<Times, "claimMs" | "callMs">;
  readonly clock: Clock;
};

/** Waits until the record has a claim (or an end), the executor has ended, or the time is over. */
export function createWaitForClaim({ backend, assignments, times, clock }: WaitForClaimOptions) {
  return async (id: string, executor: Executor, signal: AbortSignal): Promise<ClaimWait> => {
    const deadline = clock.now() + times.claimMs;
    const moved = createWakeup();
    const stop = backend.onChange(() => {
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
        const now = await look(id, executor, signal);
        if (now !== undefined) return now;
        if (clock.now() >= deadline) return { kind: "timeout" };
        await woken.first();
      }
    } finally {
      stop();
    }
  };

  async function look(id: string, executor: Executor, signal: AbortSignal): Promise<ClaimWait | undefined> {
    const claimed = () => assignments.get(id)?.record.phase.name !== "starting";
    if (claimed()) return { kind: "claimed" };
    const { executors } = await withDeadline(
      clock,
      times.callMs,
      (deadline) => backend.list(deadline),
      signal,
    );
    // It may have claimed and ended while the list was made.
    if (claimed()) return { kind: "claimed" };
    const now = executors.find((one) => one.name === executor.name);
    if (now === undefined) return { kind: "ended", reason: "it is gone" };
    return now.state.phase === "ended" ? { kind: "ended", reason: now.state.reason } : undefined;
  }
}

import { failureFor } from "../assignment/failure.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { admit, callerOf, type Peer } from "./admit.ts";
import type { RunnerServiceOptions } from "./runner-service.ts";

const deadlineMs = 30_000;

/**
 * Fails the job of an executor whose report is larger than what is read of a call: it would send it again until its
 * time is over, and the job would end without a result that says why. Never rejects; the executor's next try comes
 * here again.
 */
export function createFailTooLarge({
  keyRing,
  assignments,
  clock,
  log,
}: Pick<RunnerServiceOptions, "keyRing" | "assignments" | "clock" | "log">) {
  return async (peer: Peer, headers: Headers, evidence: string): Promise<void> => {
    try {
      const caller = callerOf(keyRing, peer, headers);
      const { assignmentId: id, spiffeId } = caller;
      const fail = async (signal: AbortSignal) => {
        const { phase } = admit(caller, assignments.resolve(id, spiffeId)?.record);
        if (phase.name !== "claimed" && phase.name !== "adopted") return;
        const failure = failureFor("result_too_large", evidence);
        await assignments.apply(id, { type: "failed", failure, result: "failure" }, signal);
      };
      const never = new AbortController().signal;
      await assignments.within(id, () => withDeadline(clock, deadlineMs, fail, never));
    } catch (error) {
      log.warn({ error: describeError(error) }, "job with a report that is too large not failed yet");
    }
  };
}

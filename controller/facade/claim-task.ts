import { Code, ConnectError } from "@connectrpc/connect";
import { Result, type TaskState, type UpdateTaskRequest } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import { admit, type Caller } from "./admit.ts";
import { stored, upstream } from "./answers.ts";
import type { UpdateTaskOptions } from "./update-task.ts";

/**
 * Enters the caller's claim: recorded before it is answered, so that there is never a second executor. Resolves to
 * the record, which may have moved on in another way meanwhile. Throws `unavailable` while it cannot be stored or the
 * rows cannot be counted, what `admit` throws if somebody else was first, and what `saysGone` tells.
 */
export function createClaimTask({
  gitea,
  assignments,
  logLanes,
}: Pick<UpdateTaskOptions, "gitea" | "assignments" | "logLanes">) {
  /**
   * Rows of ours that stand before the executor's first. One that tells of its job has heard the number before, from
   * a claim whose record got lost; Gitea need not answer for that.
   */
  const rowsBefore = async (
    { assignment, rowsBegun }: AssignmentRecord,
    state: TaskState | undefined,
    signal: AbortSignal,
  ) => {
    if (!rowsBegun || tellsOfJob(state)) return 0;
    const { id, taskId } = assignment;
    return upstream(
      logLanes.run(id, () => {
        // What waited in the lane for too long is not wanted any more.
        signal.throwIfAborted();
        return gitea.storedRows(taskId, signal);
      }),
    );
  };

  return async (
    caller: Caller,
    record: AssignmentRecord,
    { state }: UpdateTaskRequest,
    signal: AbortSignal,
  ): Promise<AssignmentRecord> => {
    const { attempt, instance } = caller;
    const logRows = await rowsBefore(record, state, signal);
    const { record: now, ignored } = await stored(
      assignments.apply(record.assignment.id, { type: "claimed", attempt, instance, logRows }, signal),
    );
    admit(caller, now);
    if (now.phase.name === "starting" || now.phase.name === "adopted")
      throw new ConnectError(`the claim was not entered: ${ignored ?? ""}`, Code.Unavailable);
    return now;
  };
}

function tellsOfJob(state: TaskState | undefined): boolean {
  return state !== undefined && (state.steps.length > 0 || state.result !== Result.UNSPECIFIED);
}

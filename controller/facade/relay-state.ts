import type { UpdateTaskRequest, UpdateTaskResponse } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import { stepsMoved, type AssignmentRecord } from "../assignment/record.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { stepRecords } from "../protocol/steps.ts";
import { taskResultOf } from "../protocol/task-result.ts";
import type { Caller } from "./admit.ts";
import { upstream } from "./answers.ts";
import { answerTimes } from "./times.ts";
import type { UpdateTaskOptions } from "./update-task.ts";

/**
 * Passes a report of a running job on to Gitea, as it is. Steps and what Gitea says are recorded; the executor hears
 * of a cancel or an end also while they cannot be: Gitea says it again to the next report. Throws `unavailable` while
 * Gitea does not answer, and what `saysGone` tells.
 */
export function createRelayState({
  gitea,
  assignments,
  clock,
  log,
}: Pick<UpdateTaskOptions, "gitea" | "assignments" | "clock" | "log">) {
  const note = async (id: string, event: AssignmentEvent, signal: AbortSignal) => {
    try {
      const apply = (deadline: AbortSignal) => assignments.apply(id, event, deadline);
      await withDeadline(clock, answerTimes.noteMs, apply, signal);
    } catch (error) {
      log.warn(
        { assignment: id, event: event.type, error: describeError(error) },
        "report could not be recorded",
      );
    }
  };

  return async (
    { attempt }: Caller,
    record: AssignmentRecord,
    request: UpdateTaskRequest,
    signal: AbortSignal,
  ): Promise<UpdateTaskResponse> => {
    const { id } = record.assignment;
    // Known from the record if the executor dies.
    const steps = stepRecords(request.state?.steps ?? []);
    if (steps.length > 0 && stepsMoved(record.steps, steps))
      await note(id, { type: "steps_reported", attempt, steps }, signal);
    const tell = (deadline: AbortSignal) => gitea.updateTask(request, deadline);
    const answer = await upstream(withDeadline(clock, answerTimes.giteaMs, tell, signal));
    const said = taskResultOf(answer.state?.result);
    if (said === "cancelled") await note(id, { type: "cancel_told" }, signal);
    else if (said !== undefined) await note(id, { type: "ended_by_gitea", result: said }, signal);
    return answer;
  };
}

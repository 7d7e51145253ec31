import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  UpdateLogResponseSchema,
  type UpdateLogRequest,
  type UpdateLogResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { isUnclaimed, type AssignmentRecord } from "../assignment/record.ts";
import { GiteaError } from "../protocol/errors.ts";
import { superseded, type Caller } from "./admit.ts";
import { foreignTask, upstream } from "./answers.ts";

export type UpdateLogOptions = {
  updateLog(request: UpdateLogRequest, signal: AbortSignal): Promise<UpdateLogResponse>;
};

/**
 * An admitted executor's UpdateLog. To be run in the task's lane, the record read in there: Gitea does not lock its
 * log, and rows of ours that end it are not to be overtaken.
 */
export function createUpdateLog(gitea: UpdateLogOptions) {
  return async (
    caller: Caller,
    record: AssignmentRecord,
    request: UpdateLogRequest,
    signal: AbortSignal,
  ): Promise<UpdateLogResponse> => {
    if (request.taskId !== record.assignment.taskId) throw foreignTask(request.taskId);
    if (request.index < 0n) throw new ConnectError("the log index is negative", Code.InvalidArgument);
    if (isUnclaimed(record))
      throw new ConnectError("claim the task before writing its log", Code.FailedPrecondition);
    if (hasOurRows(record)) throw superseded(caller, "its log is the controller's by now");
    return upstream(ignoringClosedLog(gitea.updateLog(request, signal), request));
  };
}

/** Our rows are on their way or there, because this executor counts as gone. */
function hasOurRows({ phase }: AssignmentRecord): boolean {
  if (phase.name === "finished") return phase.by === "controller";
  return phase.name === "ending" && phase.end.by === "controller" && phase.end.executorGone;
}

/** Rows for a log that is closed count as stored, or the runner would send them for ever. */
async function ignoringClosedLog(
  answer: Promise<UpdateLogResponse>,
  request: UpdateLogRequest,
): Promise<UpdateLogResponse> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof GiteaError) || error.fault !== "log-archived") throw error;
    return create(UpdateLogResponseSchema, { ackIndex: request.index + BigInt(request.rows.length) });
  }
}

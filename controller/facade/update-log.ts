import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  UpdateLogResponseSchema,
  type UpdateLogRequest,
  type UpdateLogResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import { GiteaError } from "../protocol/errors.ts";
import { foreignTask, upstream } from "./answers.ts";

export type UpdateLogOptions = {
  updateLog(request: UpdateLogRequest, signal: AbortSignal): Promise<UpdateLogResponse>;
};

/** An admitted executor's UpdateLog; never two at once for one task, because Gitea does not lock its log. */
export function createUpdateLog(gitea: UpdateLogOptions) {
  return async (
    record: AssignmentRecord,
    request: UpdateLogRequest,
    signal: AbortSignal,
  ): Promise<UpdateLogResponse> => {
    if (request.taskId !== record.assignment.taskId) throw foreignTask(request.taskId);
    if (request.index < 0n) throw new ConnectError("the log index is negative", Code.InvalidArgument);
    if (record.phase.name === "starting")
      throw new ConnectError("claim the task before writing its log", Code.FailedPrecondition);
    return upstream(ignoringClosedLog(gitea.updateLog(request, signal), request));
  };
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

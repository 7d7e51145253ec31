import { create, toBinary } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import {
  TaskStateSchema,
  type UpdateTaskRequest,
  UpdateTaskRequestSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { ReportTooLargeError } from "../assignment/errors.ts";
import { failureFor } from "../assignment/failure.ts";
import type { AssignmentRecord, TaskResult } from "../assignment/record.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { admit, type Caller } from "./admit.ts";
import { stored, unavailable } from "./answers.ts";
import { answerTimes } from "./times.ts";
import type { UpdateTaskOptions } from "./update-task.ts";

/**
 * Stores an executor's last report, then names it in the record: from then on it is what Gitea will be told, whoever
 * ends. Resolves to the record. Throws `unavailable` while that cannot be stored; Gitea then hears that the job is
 * still there, or it would end it.
 */
export function createTakeResult({
  gitea,
  assignments,
  reports,
  clock,
  log,
}: Pick<UpdateTaskOptions, "gitea" | "assignments" | "reports" | "clock" | "log">) {
  /** A beat with the last steps: without them Gitea would set those that are over back to running. */
  const spare = async (id: string, { state }: UpdateTaskRequest, signal: AbortSignal) => {
    const { id: taskId, startedAt, steps } = state ?? create(TaskStateSchema);
    const beat = create(UpdateTaskRequestSchema, {
      state: { id: taskId, steps, ...(startedAt === undefined ? {} : { startedAt }) },
    });
    try {
      const call = (deadline: AbortSignal) => gitea.updateTask(beat, deadline);
      await withDeadline(clock, answerTimes.spareMs, call, signal);
    } catch (error) {
      log.debug({ assignment: id, error: describeError(error) }, "gitea does not hear that a job is there");
    }
  };

  const tooLarge = async (id: string, error: ReportTooLargeError, signal: AbortSignal) => {
    const failure = failureFor("result_too_large", error.message);
    const event = { type: "failed", failure, result: "failure" } as const;
    return (await stored(assignments.apply(id, event, signal))).record;
  };

  return async (
    caller: Caller,
    { assignment: { id } }: AssignmentRecord,
    request: UpdateTaskRequest,
    result: TaskResult,
    signal: AbortSignal,
  ): Promise<AssignmentRecord> => {
    const { attempt } = caller;
    const store = async (deadline: AbortSignal) => {
      const report = await reports.put(id, result, toBinary(UpdateTaskRequestSchema, request), deadline);
      return assignments.apply(id, { type: "result_reported", attempt, report }, deadline);
    };
    try {
      const { record } = await withDeadline(clock, answerTimes.storeMs, store, signal);
      return admit(caller, record);
    } catch (error) {
      if (error instanceof ConnectError) throw error;
      if (error instanceof ReportTooLargeError) return tooLarge(id, error, signal);
      log.warn({ assignment: id, error: describeError(error) }, "result cannot be stored yet");
      await spare(id, request, signal);
      throw unavailable(error);
    }
  };
}

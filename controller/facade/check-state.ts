import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  Result,
  type StepState,
  type TaskState,
  type UpdateTaskRequest,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { foreignTask } from "./answers.ts";

/** Many times what any workflow has; more would not fit into a record. */
const maxSteps = 5_000;

/** The years 1 to 9999, in seconds: what a Timestamp may say. */
const firstSecond = -62_135_596_800n;
const lastSecond = 253_402_300_799n;

/**
 * The state in an executor's report, if it is of its own task and makes sense. What comes from there was written by
 * whoever wrote the workflow, and a record that cannot be read back would outlive the job.
 */
export function checkedState({ state }: UpdateTaskRequest, taskId: bigint): TaskState {
  if (state === undefined) throw invalid("the state is missing");
  if (state.id !== taskId) throw foreignTask(state.id);
  if (state.result < Result.UNSPECIFIED || state.result > Result.SKIPPED)
    throw invalid(`the result ${state.result} is not known`);
  if (state.steps.length > maxSteps)
    throw invalid(`${state.steps.length} steps are more than the ${maxSteps} that are possible`);
  for (const step of state.steps) checkStep(step);
  return state;
}

function checkStep({ id, logIndex, logLength, startedAt, stoppedAt }: StepState): void {
  if (!isCount(id) || !isCount(logIndex) || !isCount(logLength))
    throw invalid("a step's number or place in the log is out of range");
  if (!isTime(startedAt) || !isTime(stoppedAt)) throw invalid("a step's time is out of range");
}

function isCount(value: bigint): boolean {
  return value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER);
}

function isTime(time: Timestamp | undefined): boolean {
  return time === undefined || (time.seconds >= firstSecond && time.seconds <= lastSecond);
}

function invalid(why: string): ConnectError {
  return new ConnectError(why, Code.InvalidArgument);
}

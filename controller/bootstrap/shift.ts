import { clone } from "@bufbuild/protobuf";
import { type TaskState, TaskStateSchema } from "../../proto/gen/runner/v1/runner_pb.ts";

/**
 * A state whose steps point at rows of Gitea's numbering, in which `placeOf` says where a row of gitea-runner's
 * stands; unknown fields stay.
 */
export function shiftState(state: TaskState, placeOf: (index: bigint) => bigint): TaskState {
  const shifted = clone(TaskStateSchema, state);
  for (const step of shifted.steps) {
    const end = placeOf(step.logIndex + step.logLength);
    step.logIndex = placeOf(step.logIndex);
    step.logLength = end - step.logIndex;
  }
  return shifted;
}

import type { UpdateTaskResponse } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { TaskResult } from "../assignment/record.ts";
import { GiteaError } from "../protocol/errors.ts";
import { taskResultOf } from "../protocol/task-result.ts";

/** What Gitea shows after it was told a result; throws a transient GiteaError if it does not say that it took one. */
export function shownResult(taskId: bigint, answer: UpdateTaskResponse): TaskResult {
  const result = taskResultOf(answer.state?.result);
  if (result === undefined)
    throw new GiteaError("transient", `Gitea did not take the result of task ${taskId}`);
  return result;
}

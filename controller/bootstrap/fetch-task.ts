import type { Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { FacadeCalls } from "./facade-calls.ts";
import type { Times } from "./times.ts";

/**
 * The task of this executor, with the fields that we do not know; repeated while the facade has none for us.
 * Rejects with RefusedError or the reason of the signal.
 */
export async function fetchTask(
  calls: FacadeCalls,
  taskId: bigint,
  times: Times,
  signal: AbortSignal,
): Promise<Task> {
  const { task } = await calls.untilAnswered(
    "FetchTask",
    async (client, options) => {
      const answer = await client.fetchTask({}, options);
      if (answer.task === undefined) throw new Error("the facade has no task for us");
      if (answer.task.id !== taskId) throw new Error(`the facade offers task ${answer.task.id}`);
      return { task: answer.task };
    },
    { deadline: times.call, every: times.retryEvery },
    signal,
  );
  return task;
}

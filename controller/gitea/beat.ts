import type { TaskResult } from "../assignment/record.ts";
import { GiteaError } from "../protocol/errors.ts";
import { taskResultOf } from "../protocol/task-result.ts";
import type { RunnerClient } from "./runner-client.ts";

/** What Gitea says of a task: it runs, it is over or to be ended (`cancelled`), or it is not ours any more. */
export type Beat = "running" | TaskResult | "gone";

/**
 * Tells Gitea that a task is held, and asks what it thinks of it. Only before the claim: afterwards a beat
 * without the steps would set those that are over back to running. Rejects with a transient GiteaError.
 */
export async function beat(
  gitea: Pick<RunnerClient, "updateTask">,
  taskId: bigint,
  signal: AbortSignal,
): Promise<Beat> {
  try {
    const answer = await gitea.updateTask({ state: { id: taskId } }, signal);
    return taskResultOf(answer.state?.result) ?? "running";
  } catch (error) {
    if (error instanceof GiteaError && error.fault === "gone") return "gone";
    throw error;
  }
}

import { fromBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UpdateTaskRequestSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { TaskResult } from "../assignment/record.ts";
import { GiteaError } from "../protocol/errors.ts";
import type { RunnerClient } from "./runner-client.ts";
import { shownResult } from "./shown-result.ts";

export type StoredRequest = {
  readonly taskId: bigint;
  /** The executor's last UpdateTask, as it came. */
  readonly bytes: Uint8Array;
  /** When the result was stored: the end of a task that does not say its own. Milliseconds since the epoch. */
  readonly storedAt: number;
};

/**
 * Tells Gitea what an executor reported last, byte for byte but for the time of its end, which Gitea needs. Resolves
 * to the result that Gitea shows, or "gone" if Gitea knows no such task of ours. Rejects with a transient GiteaError,
 * and the caller tries again: Gitea takes the first result of a task only.
 */
export async function sendReport(
  gitea: Pick<RunnerClient, "updateTask">,
  { taskId, bytes, storedAt }: StoredRequest,
  signal: AbortSignal,
): Promise<TaskResult | "gone"> {
  const request = fromBinary(UpdateTaskRequestSchema, bytes);
  if (request.state !== undefined) request.state.stoppedAt ??= timestampFromMs(storedAt);
  try {
    return shownResult(taskId, await gitea.updateTask(request, signal));
  } catch (error) {
    if (error instanceof GiteaError && error.fault === "gone") return "gone";
    throw error;
  }
}

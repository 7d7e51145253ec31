import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { callHeaders } from "../assignment/executor-call.ts";
import type { FacadeCalls } from "./facade-calls.ts";
import type { Times } from "./times.ts";

/** The facade has recorded that this instance has the task in hand. */
export type ClaimAnswer = {
  /** Rows that Gitea's log had before our first: ours count from there. */
  readonly logRows: bigint;
  /** Other than UNSPECIFIED when the task has ended before it began, for instance by a cancel. */
  readonly result: Result;
};

/**
 * Claims the task: an UpdateTask without result, the same until it is answered. From the answer on nobody else
 * will run this task. Rejects with RefusedError (nothing may be run) or the reason of the signal.
 */
export async function claimTask(
  calls: FacadeCalls,
  taskId: bigint,
  times: Times,
  signal: AbortSignal,
): Promise<ClaimAnswer> {
  return await calls.untilAnswered(
    "UpdateTask",
    async (client, options) => {
      let rows: string | null = null;
      const onHeader = (headers: Headers) => (rows = headers.get(callHeaders.logRows));
      const { state } = await client.updateTask({ state: { id: taskId } }, { ...options, onHeader });
      return { logRows: parseLogRows(rows), result: state?.result ?? Result.UNSPECIFIED };
    },
    { deadline: times.call, every: times.retryEvery },
    signal,
  );
}

/** Without the number our rows would fall on the controller's own, and Gitea drops such without a word. */
function parseLogRows(text: string | null): bigint {
  if (text === null || !/^(0|[1-9][0-9]{0,17})$/.test(text))
    throw new Error(`the answer to the claim has no ${callHeaders.logRows}`);
  return BigInt(text);
}

import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  Result,
  UpdateTaskResponseSchema,
  type UpdateTaskRequest,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import {
  enterClaim,
  finish,
  isCurrentAttempt,
  stepsMoved,
  type AssignmentRecord,
  type TaskResult,
} from "../assignment/record.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { stepRecords } from "../protocol/steps.ts";
import { taskResultOf, wireResult } from "../protocol/task-result.ts";
import { superseded, type Caller } from "./admit.ts";
import { stored, upstream } from "./answers.ts";
import { checkedState } from "./check-state.ts";

export type UpdateTaskOptions = {
  readonly gitea: {
    updateTask(request: UpdateTaskRequest, signal: AbortSignal): Promise<UpdateTaskResponse>;
    /** How many rows the task's log has. */
    storedRows(taskId: bigint, signal: AbortSignal): Promise<number>;
  };
  /** Stores what `next` makes of the record, and resolves to what is stored then. */
  readonly change: (
    id: string,
    next: (record: AssignmentRecord) => AssignmentRecord,
    signal: AbortSignal,
  ) => Promise<AssignmentRecord>;
  /** Writes on the executor that its task is over; one that is gone counts as marked. */
  readonly markTerminal: (record: AssignmentRecord, signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
};

export type TaskUpdate = {
  readonly answer: UpdateTaskResponse;
  /** Rows that Gitea's log had before the executor's first; undefined once the task is over. */
  readonly logRows?: number;
  /** The result that Gitea has just taken. */
  readonly ended?: TaskResult;
};

/**
 * An admitted executor's UpdateTask; to be run as the assignment's actor. The first one is the claim: recorded
 * before it is answered. A result is relayed, and when Gitea has taken it recorded, marked on
 * the executor and only then answered, so that a failure on the way makes the executor repeat it.
 */
export function createUpdateTask({ gitea, change, markTerminal, clock, log }: UpdateTaskOptions) {
  const claim = async (caller: Caller, record: AssignmentRecord, signal: AbortSignal) => {
    const { taskId, id } = record.assignment;
    const logRows = record.rowsBegun ? await upstream(gitea.storedRows(taskId, signal)) : 0;
    const wanted = { instance: caller.instance, logRows, at: clock.now() };
    const entered = await stored(
      change(
        id,
        (current) => {
          // Asked again: a record adopted after a conflict may be another attempt's by now.
          if (!isCurrentAttempt(current, caller.attempt)) return current;
          const outcome = enterClaim(current, wanted);
          return outcome.kind === "claimed" ? outcome.record : current;
        },
        signal,
      ),
    );
    if (!isCurrentAttempt(entered, caller.attempt))
      throw superseded(caller, "another attempt has taken its place");
    const outcome = enterClaim(entered, wanted);
    if (outcome.kind === "refused") throw superseded(caller, outcome.reason);
    return entered;
  };

  /** Known from the record if the executor dies; Gitea hears of them also while they cannot be recorded. */
  const recordSteps = async (request: UpdateTaskRequest, record: AssignmentRecord, signal: AbortSignal) => {
    const steps = stepRecords(request.state?.steps ?? []);
    if (steps.length === 0 || !stepsMoved(record.steps, steps)) return;
    const { id } = record.assignment;
    try {
      await change(id, (current) => ({ ...current, steps }), signal);
    } catch (error) {
      log.warn({ assignment: id, error: describeError(error) }, "steps could not be recorded");
    }
  };

  const end = async (
    id: string,
    result: TaskResult | undefined,
    signal: AbortSignal,
  ): Promise<TaskResult> => {
    if (result === undefined) throw new ConnectError("Gitea did not take the result", Code.Unavailable);
    const record = await stored(change(id, (current) => finish(current, result, clock.now()), signal));
    await stored(markTerminal(record, signal));
    return result;
  };

  return async (
    caller: Caller,
    record: AssignmentRecord,
    request: UpdateTaskRequest,
    signal: AbortSignal,
  ): Promise<TaskUpdate> => {
    const { id, taskId } = record.assignment;
    const state = checkedState(request, taskId);
    const final = state.result !== Result.UNSPECIFIED;
    if (record.phase.name === "finished") {
      await stored(markTerminal(record, signal));
      const result = wireResult(record.phase.result);
      // Came with the report that Gitea took, or are of no use to it any more.
      const sentOutputs = Object.keys(request.outputs);
      return { answer: create(UpdateTaskResponseSchema, { state: { id: taskId, result }, sentOutputs }) };
    }
    const claimed = record.phase.name === "claimed" ? record : await claim(caller, record, signal);
    await recordSteps(request, claimed, signal);
    if (final) state.stoppedAt ??= timestampFromMs(clock.now());
    const answer = await upstream(gitea.updateTask(request, signal));
    const logRows = claimed.phase.name === "claimed" ? claimed.phase.claim.logRows : 0;
    if (!final) return { answer, logRows };
    return { answer, logRows, ended: await end(id, taskResultOf(answer.state?.result), signal) };
  };
}

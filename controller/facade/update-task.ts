import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type UpdateTaskRequest,
  type UpdateTaskResponse,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import {
  type AssignmentRecord,
  claimOf,
  resultOf,
  type StoredReport,
  type TaskResult,
} from "../assignment/record.ts";
import type { Clock } from "../platform/clock.ts";
import type { KeyedQueue } from "../platform/keyed-queue.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import { taskResultOf, wireResult } from "../protocol/task-result.ts";
import { superseded, type Caller } from "./admit.ts";
import { saysGone, stored, unavailable } from "./answers.ts";
import { checkedState } from "./check-state.ts";
import { createClaimTask } from "./claim-task.ts";
import { createRelayState } from "./relay-state.ts";
import { createTakeResult } from "./take-result.ts";
import { answerTimes } from "./times.ts";

export type UpdateTaskOptions = {
  readonly gitea: {
    updateTask(request: UpdateTaskRequest, signal: AbortSignal): Promise<UpdateTaskResponse>;
    /** How many rows the task's log has. */
    storedRows(taskId: bigint, signal: AbortSignal): Promise<number>;
  };
  readonly assignments: {
    get(id: string): { readonly record: AssignmentRecord } | undefined;
    /** Stores what the event makes of the record; resolves to what is stored then. */
    apply(
      id: string,
      event: AssignmentEvent,
      signal: AbortSignal,
    ): Promise<{ readonly record: AssignmentRecord; readonly ignored?: string }>;
  };
  readonly reports: {
    /** Rejects with ReportTooLargeError for one that is too large ever to be stored. */
    put(id: string, result: TaskResult, bytes: Uint8Array, signal: AbortSignal): Promise<StoredReport>;
  };
  /** Tells Gitea what is decided, once; resolves to the record as it is then. */
  readonly ends: { deliver(id: string, signal: AbortSignal): Promise<AssignmentRecord> };
  /** Writes on the executor that its task is over; one that is gone counts as marked. */
  readonly markTerminal: (record: AssignmentRecord, signal: AbortSignal) => Promise<void>;
  /** One lane for each assignment's calls to Gitea's UpdateLog. */
  readonly logLanes: Pick<KeyedQueue, "run">;
  readonly clock: Clock;
  readonly log: Logger;
};

export type TaskUpdate = {
  readonly answer: UpdateTaskResponse;
  /** Rows that Gitea's log had before the executor's first. */
  readonly logRows: number;
  /** The executor is not needed any more. */
  readonly over: boolean;
};

/**
 * An admitted executor's UpdateTask; to be run as the assignment's actor. The first one is the claim. Reports of a
 * running job are relayed. A result is stored first, then Gitea is tried at once, then it is answered, whether Gitea
 * has taken it yet or not; the first result stands. Once Gitea has taken it, the executor is marked before the answer.
 */
export function createUpdateTask(options: UpdateTaskOptions) {
  const { assignments, ends, markTerminal, clock, log } = options;
  const claim = createClaimTask(options);
  const relay = createRelayState(options);
  const take = createTakeResult(options);

  /** Gitea knows no such task of ours: nothing that this executor does is of use to anybody. */
  const gone = async (caller: Caller, { assignment: { id } }: AssignmentRecord, signal: AbortSignal) => {
    const event = { type: "ended_by_gitea", result: "cancelled" } as const;
    const { record } = await stored(assignments.apply(id, event, signal));
    await stored(markTerminal(record, signal));
    return superseded(caller, "Gitea does not know its task any more");
  };

  /** Tries to have Gitea told what is stored; if it cannot be told now, the controller goes on alone. */
  const deliver = async (record: AssignmentRecord, signal: AbortSignal): Promise<AssignmentRecord> => {
    const { id } = record.assignment;
    try {
      const once = (deadline: AbortSignal) => ends.deliver(id, deadline);
      return await withDeadline(clock, answerTimes.deliverMs, once, signal);
    } catch (error) {
      const now = assignments.get(id)?.record ?? record;
      // Gitea has taken it, but the mark is missing: the repetition makes it.
      if (now.phase.name !== "ending") throw unavailable(error);
      return now;
    }
  };

  /** What an executor hears of an end that is decided; it counts as taken, whoever decided it. */
  const toldEnd = (record: AssignmentRecord, request: UpdateTaskRequest): TaskUpdate => {
    const { phase, assignment } = record;
    const stands = resultOf(record);
    const said = taskResultOf(request.state?.result);
    if (said !== undefined && said !== stands)
      log.warn(
        { assignment: assignment.id, said, stands },
        "result of an executor is not the one that stands",
      );
    const state = { id: assignment.taskId, result: wireResult(stands) };
    // Outputs came with the report that is stored, or are of no use to it any more.
    const sentOutputs = Object.keys(request.outputs);
    return {
      answer: create(UpdateTaskResponseSchema, { state, sentOutputs }),
      logRows: claimOf(record)?.logRows ?? 0,
      over: phase.name === "finished" || (phase.name === "ending" && phase.end.by === "executor"),
    };
  };

  const serve = async (
    caller: Caller,
    record: AssignmentRecord,
    request: UpdateTaskRequest,
    signal: AbortSignal,
  ): Promise<TaskUpdate> => {
    const { phase } = record;
    switch (phase.name) {
      case "queued":
        throw new ConnectError(`${record.assignment.id} has no attempt`, Code.Unavailable);
      case "starting":
      case "adopted":
        return serve(caller, await claim(caller, record, request, signal), request, signal);
      case "claimed": {
        const result = taskResultOf(request.state?.result);
        if (result !== undefined)
          return serve(caller, await take(caller, record, request, result, signal), request, signal);
        const answer = await relay(caller, record, request, signal);
        const now = assignments.get(record.assignment.id)?.record ?? record;
        if (now.phase.name === "finished") await stored(markTerminal(now, signal));
        return { answer, logRows: phase.claim.logRows, over: false };
      }
      case "ending":
        return toldEnd(phase.end.by === "executor" ? await deliver(record, signal) : record, request);
      case "finished":
        await stored(markTerminal(record, signal));
        return toldEnd(record, request);
      default:
        return phase satisfies never;
    }
  };

  return async (
    caller: Caller,
    record: AssignmentRecord,
    request: UpdateTaskRequest,
    signal: AbortSignal,
  ): Promise<TaskUpdate> => {
    checkedState(request, record.assignment.taskId);
    try {
      return await serve(caller, record, request, signal);
    } catch (error) {
      if (saysGone(error)) throw await gone(caller, record, signal);
      throw error;
    }
  };
}

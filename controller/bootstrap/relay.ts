import type {
  Result,
  UpdateLogRequest,
  UpdateLogResponse,
  UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import type { FacadeCall, FacadeCalls } from "./facade-calls.ts";
import { createLogRelay } from "./log-relay.ts";
import { initialProgress, type Progress, type StateReport } from "./progress.ts";
import { createStateRelay } from "./state-relay.ts";
import { RefusedError } from "./until-answered.ts";

/**
 * Carries a job's reports to the facade, counted as gitea-runner counts them. The methods reject while the
 * facade does not take a report, and whoever made it repeats it; nothing is lost or stored twice by that.
 */
export type Relay = {
  updateTask(report: StateReport): Promise<UpdateTaskResponse>;
  updateLog(report: UpdateLogRequest): Promise<UpdateLogResponse>;
  /** How many of the runner's rows are stored, asked for when no report of rows is on its way any more. */
  storedRows(): Promise<bigint>;
  /** Says the last full state again. */
  beat(): Promise<void>;
  progress(): Progress;
  /** Aborted when Gitea has ended the job, by a cancel or a timeout, and its runner is to wind up. */
  readonly ended: AbortSignal;
  /** Aborted when the facade will not serve us any more: the job is to end, nobody wants its result. */
  readonly refused: AbortSignal;
};

export type RelayOptions = {
  readonly calls: FacadeCalls;
  readonly clock: Clock;
  readonly taskId: bigint;
  /** Rows that Gitea's log had before the runner's first. */
  readonly logRows: bigint;
  /** How the task had ended already when it was claimed. */
  readonly ended: Result;
  /** Milliseconds that a call may take. */
  readonly callDeadline: number;
  /** Ends running calls when the process gives up. */
  readonly signal: AbortSignal;
  /** Aborted when the executor is told to end, whatever the job does. */
  readonly stop: AbortSignal;
};

/** What the two halves of a relay share. */
export type RelayCore = Pick<RelayOptions, "clock" | "taskId" | "logRows" | "stop"> & {
  /** One call; a refusal is remembered before it is thrown. */
  call<T>(run: FacadeCall<T>): Promise<T>;
  progress: Progress;
  readonly ended: AbortController;
  readonly refused: AbortSignal;
};

/** The relay that answers gitea-runner when the facade has answered: one UpdateTask and one UpdateLog in flight. */
export function createRelay(options: RelayOptions): Relay {
  const { calls, clock, taskId, logRows, stop } = options;
  const refusal = new AbortController();
  const core: RelayCore = {
    clock,
    taskId,
    logRows,
    stop,
    ended: new AbortController(),
    refused: refusal.signal,
    progress: initialProgress(taskId, options.ended, clock.now()),
    call: async (run) => {
      try {
        return await calls.once(run, options.callDeadline, options.signal);
      } catch (error) {
        if (error instanceof RefusedError) refusal.abort(error);
        throw error;
      }
    },
  };
  return {
    ...createStateRelay(core),
    ...createLogRelay(core),
    progress: () => core.progress,
    ended: core.ended.signal,
    refused: refusal.signal,
  };
}

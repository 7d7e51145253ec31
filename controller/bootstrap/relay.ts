import {
  Result,
  type UpdateLogRequest,
  type UpdateLogResponse,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { isAbortOf } from "../platform/signal.ts";
import { createWakeup } from "../platform/wakeup.ts";
import type { FacadeCalls } from "./facade-calls.ts";
import { createLogLane } from "./log-lane.ts";
import { defaultLogLimits, type LogLimits } from "./log-limits.ts";
import type { RelayCore, RelayTimes } from "./relay-core.ts";
import { createStateLane } from "./state-lane.ts";
import { isCutShort, type StateReport } from "./state-spool.ts";
import { RefusedError } from "./until-answered.ts";

/**
 * Carries a job's reports to the facade on two lanes, neither of which waits for the other: log rows, and the latest
 * state. gitea-runner, whose own patience at its end is about half a minute, is answered at once; what it was told to
 * be taken is held until the facade has it.
 */
export type Relay = {
  updateTask(report: StateReport): Promise<UpdateTaskResponse>;
  updateLog(report: UpdateLogRequest): Promise<UpdateLogResponse>;
  /**
   * gitea-runner has ended. If it has reported no result there is one now, made of the steps that it reported, of
   * which the job has `steps`, after a last row with the `reason`.
   */
  close(steps: number, reason: string): void;
  /**
   * Sends what was taken. Resolves when all is delivered, when the facade refuses us for good, or when the signal is
   * aborted; never rejects. To be called once.
   */
  run(signal: AbortSignal): Promise<void>;
  /** What counts as the job's result, once the facade has taken it. */
  result(): Result | undefined;
  /** Rows that Gitea does not have. */
  waitingRows(): number;
  /** Aborted when Gitea has ended the job, by a cancel or a timeout, and its runner is to wind up. */
  readonly ended: AbortSignal;
  /** Aborted when the facade will not serve us any more: the job is to end, nobody wants its result. */
  readonly refused: AbortSignal;
};

export type RelayOptions = {
  readonly calls: FacadeCalls;
  readonly clock: Clock;
  readonly times: RelayTimes;
  readonly log: Logger;
  readonly taskId: bigint;
  /** Rows that Gitea's log had before the runner's first. */
  readonly logRows: bigint;
  /** How the task had ended already when it was claimed. */
  readonly ended: Result;
  /** Aborted when the executor is told to end, whatever the job does. */
  readonly stop: AbortSignal;
  readonly limits?: LogLimits;
};

export function createRelay(options: RelayOptions): Relay {
  const { calls, clock, times, log, taskId, stop, logRows, limits = defaultLogLimits } = options;
  const refusal = new AbortController();
  const core: RelayCore = {
    clock,
    times,
    log,
    taskId,
    stop,
    changed: createWakeup(),
    refused: refusal.signal,
    call: async (run, signal) => {
      try {
        return await calls.once(run, times.call, signal);
      } catch (error) {
        if (error instanceof RefusedError) refusal.abort(error);
        throw error;
      }
    },
  };
  const closes = () => {
    const spool = states.state();
    if (spool.final.kind === "left") return "no";
    return isCutShort(spool, stop.aborted) && spool.final.kind === "none" ? "unknown" : "yes";
  };
  const logs = createLogLane(core, { logRows, limits, closes });
  const states = createStateLane(core, {
    ended: options.ended,
    isLogDone: () => logs.isDone(),
    placeOf: (index) => logs.placeOf(index),
  });
  return {
    updateTask: (report) => {
      const answer = states.updateTask(report);
      logs.decided();
      return answer;
    },
    updateLog: (report) => logs.updateLog(report),
    close: (steps, reason) => {
      const isMissing = states.state().final.kind === "none";
      states.close(steps);
      logs.close(isMissing ? reason : undefined);
    },
    run: async (signal) => {
      const either = AbortSignal.any([signal, refusal.signal]);
      const carry = async (lane: Pick<typeof logs, "run">) => {
        try {
          await lane.run(either);
        } catch (error) {
          if (!isAbortOf(either, error)) log.error({ error: describeError(error) }, "lane broken");
        }
      };
      await Promise.all([carry(logs), carry(states)]);
    },
    result: () => {
      const { final } = states.state();
      return final.kind === "delivered" ? final.result : undefined;
    },
    waitingRows: () => logs.waiting(),
    ended: states.ended,
    refused: refusal.signal,
  };
}

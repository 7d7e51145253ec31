import { clone } from "@bufbuild/protobuf";
import {
  Result,
  UpdateTaskRequestSchema,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { createOutageLog } from "./outage-log.ts";
import { nextChange, type RelayCore } from "./relay-core.ts";
import { shiftState } from "./shift.ts";
import { nextTurn, type StateCall, withAnswer } from "./state-calls.ts";
import {
  answerTo,
  initialState,
  type StateReport,
  type StateSpool,
  withoutRunner,
  withReport,
} from "./state-spool.ts";

export type StateLane = {
  /**
   * Takes a report, and answers with what is known: a result at once; another report after `times.answer` at the
   * latest, so that it tells of a cancel which the facade tells now, or at once while the facade is away.
   */
  updateTask(report: StateReport): Promise<UpdateTaskResponse>;
  /** gitea-runner has ended; its job has so many steps. */
  close(steps: number): void;
  /** Sends states, beats and the result until that is taken; rejects with the signal's reason only. */
  run(signal: AbortSignal): Promise<void>;
  state(): StateSpool;
  /** Aborted when Gitea has ended a job whose runner has not said how it ended. */
  readonly ended: AbortSignal;
};

export type StateLaneOptions = {
  /** How the task had ended already when it was claimed. */
  readonly ended: Result;
  readonly isLogDone: () => boolean;
  /** Where a row of gitea-runner's stands in Gitea. */
  readonly placeOf: (index: bigint) => bigint;
};

/** Carries the latest state, one call in flight. */
export function createStateLane(core: RelayCore, options: StateLaneOptions): StateLane {
  const { clock, times, log, taskId, changed } = core;
  const outage = createOutageLog(log, "UpdateTask");
  const ended = new AbortController();
  let spool = initialState(taskId, options.ended, clock.now());
  const become = (next: StateSpool) => {
    spool = next;
    changed.wake();
  };

  /** Rather soon, if at all. */
  const isTold = async (reports: number) => {
    const until = clock.now() + times.answer;
    const isOpen = () => spool.told < reports && !outage.lasts() && !core.refused.aborted;
    for (let left = times.answer; isOpen() && left > 0; left = until - clock.now())
      await nextChange(core, left, core.refused).catch(() => undefined);
  };

  const updateTask = async (report: StateReport): Promise<UpdateTaskResponse> => {
    become(withReport(spool, report, core.stop.aborted, clock.now()));
    if (spool.final.kind === "none") await isTold(spool.reports);
    const answer = answerTo(report, spool);
    // Nobody wants its result any more.
    if (core.refused.aborted && answer.state !== undefined) answer.state.result = Result.CANCELLED;
    return answer;
  };

  const send = async (call: StateCall, signal: AbortSignal) => {
    const request = clone(UpdateTaskRequestSchema, call.request);
    request.state = shiftState(call.state, options.placeOf);
    const answer = await core.call((client, inner) => client.updateTask(request, inner), signal);
    become(withAnswer(spool, call, answer, clock.now()));
    if (spool.final.kind === "none" && spool.ended !== Result.UNSPECIFIED) ended.abort();
    const passedOver = spool.outputs.waiting.size;
    if (spool.final.kind === "delivered" && passedOver > 0)
      log.warn({ outputs: passedOver }, "outputs not taken by Gitea");
  };

  const run = async (signal: AbortSignal) => {
    for (;;) {
      const turn = nextTurn(spool, clock.now(), options.isLogDone(), times);
      switch (turn.kind) {
        case "over":
          return;
        case "wait":
          await nextChange(core, turn.ms, signal);
          break;
        case "call":
          try {
            await send(turn.call, signal);
            outage.passed();
          } catch (error) {
            signal.throwIfAborted();
            outage.failed(error);
            changed.wake();
            await clock.sleep(times.retryEvery, signal);
          }
          break;
        default:
          turn satisfies never;
      }
    }
  };

  return {
    updateTask,
    close: (steps) => become(withoutRunner(spool, steps, core.stop.aborted, clock.now())),
    run,
    state: () => spool,
    ended: ended.signal,
  };
}

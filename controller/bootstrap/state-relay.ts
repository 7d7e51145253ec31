import { clone, create } from "@bufbuild/protobuf";
import {
  Result,
  type UpdateTaskRequest,
  UpdateTaskRequestSchema,
  type UpdateTaskResponse,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { resultAfterStop, withResult } from "./final-state.ts";
import { createLane } from "./lane.ts";
import { type StateReport, withAnswer, withReport } from "./progress.ts";
import type { Relay, RelayCore } from "./relay.ts";
import { shiftState } from "./shift.ts";

/** Carries states and beats, one at a time. */
export function createStateRelay(core: RelayCore): Pick<Relay, "updateTask" | "beat"> {
  const lane = createLane();

  const send = async (request: UpdateTaskRequest, state: StateReport["state"]) => {
    const shifted = clone(UpdateTaskRequestSchema, request);
    shifted.state = shiftState(state, core.logRows);
    const answer = await core.call((client, options) => client.updateTask(shifted, options));
    core.progress = withAnswer(core.progress, state, answer, core.clock.now());
    const { ended } = core.progress;
    if (state.result === Result.UNSPECIFIED && ended !== Result.UNSPECIFIED) core.ended.abort();
    return answer;
  };

  const sendFinal = async (report: StateReport) => {
    const state = withResult(core.progress.state, report.state.result, core.clock.now());
    try {
      return await send(report, state);
    } catch (error) {
      if (core.refused.aborted) return toWindUp(report);
      throw error;
    }
  };

  const sendStep = async (report: StateReport) => {
    try {
      const answer = await send(report, core.progress.state);
      if (core.progress.ended !== Result.UNSPECIFIED) answer.state = toWindUp(report).state;
      return answer;
    } catch (error) {
      if (core.refused.aborted) return toWindUp(report);
      if (core.progress.ended === Result.UNSPECIFIED) throw error;
      // A cancel does not wait for a facade that is away; the state is kept, and said by the next beat.
      return { ...toWindUp(report), sentOutputs: [] };
    }
  };

  /** What counts as the job's result: decided when it is first reported, and the same when it is reported again. */
  const judge = (report: StateReport) => {
    const { final, state, ended } = core.progress;
    if (report.state.result === Result.UNSPECIFIED) return;
    if (final.kind === "seen") report.state.result = final.report.state.result;
    else if (core.stop.aborted && ended === Result.UNSPECIFIED) {
      const steps = report.state.steps.length === 0 ? state.steps : report.state.steps;
      report.state.result = resultAfterStop({ ...report.state, steps });
    }
  };

  const updateTask = async (report: StateReport): Promise<UpdateTaskResponse> => {
    const { final } = core.progress;
    if (final.kind === "delivered") return final.answer;
    judge(report);
    core.progress = withReport(core.progress, report);
    if (core.refused.aborted) return toWindUp(report);
    return report.state.result === Result.UNSPECIFIED ? await sendStep(report) : await sendFinal(report);
  };

  const beat = async () => {
    if (core.progress.final.kind !== "none" || core.refused.aborted) return;
    await send(create(UpdateTaskRequestSchema), core.progress.state);
  };

  return { updateTask: (report) => lane(() => updateTask(report)), beat: () => lane(beat) };
}

/**
 * The answer to a runner whose job is over elsewhere, however it ended there: what it reports counts as taken, it is
 * to wind up. Older versions do so for a cancel only.
 */
function toWindUp(report: StateReport): UpdateTaskResponse {
  const sentOutputs = Object.keys(report.outputs);
  const state = { id: report.state.id, result: Result.CANCELLED };
  return create(UpdateTaskResponseSchema, { state, sentOutputs });
}

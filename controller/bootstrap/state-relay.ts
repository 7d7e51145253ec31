import { clone, create } from "@bufbuild/protobuf";
import {
  Result,
  type UpdateTaskRequest,
  UpdateTaskRequestSchema,
  type UpdateTaskResponse,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { withResult } from "./final-state.ts";
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
    return answer;
  };

  const sendFinal = async (report: StateReport) => {
    const state = withResult(core.progress.state, report.state.result, core.clock.now());
    try {
      return await send(report, state);
    } catch (error) {
      if (core.refused.aborted) return takenAsIs(report, Result.CANCELLED);
      throw error;
    }
  };

  const sendStep = async (report: StateReport) => {
    try {
      const answer = await send(report, core.progress.state);
      if (core.progress.ended !== Result.UNSPECIFIED)
        answer.state = takenAsIs(report, core.progress.ended).state;
      return answer;
    } catch (error) {
      if (core.refused.aborted) return takenAsIs(report, Result.CANCELLED);
      if (core.progress.ended === Result.UNSPECIFIED) throw error;
      // A cancel does not wait for a facade that is away; the state is kept, and said by the next beat.
      return { ...takenAsIs(report, core.progress.ended), sentOutputs: [] };
    }
  };

  const updateTask = async (report: StateReport): Promise<UpdateTaskResponse> => {
    const { final } = core.progress;
    if (final.kind === "delivered") return final.answer;
    core.progress = withReport(core.progress, report);
    if (core.refused.aborted) return takenAsIs(report, Result.CANCELLED);
    return report.state.result === Result.UNSPECIFIED ? await sendStep(report) : await sendFinal(report);
  };

  const beat = async () => {
    if (core.progress.final.kind !== "none" || core.refused.aborted) return;
    await send(create(UpdateTaskRequestSchema), core.progress.state);
  };

  return { updateTask: (report) => lane(() => updateTask(report)), beat: () => lane(beat) };
}

/** The answer to a runner whose job is over elsewhere: what it reports counts as taken, it is to wind up. */
function takenAsIs(report: StateReport, result: Result): UpdateTaskResponse {
  const sentOutputs = Object.keys(report.outputs);
  return create(UpdateTaskResponseSchema, { state: { id: report.state.id, result }, sentOutputs });
}

import { clone, create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  Result,
  type StepState,
  StepStateSchema,
  type TaskState,
  TaskStateSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";

/**
 * The state that ends a job whose runner did not say how it ended. It holds every step, known or not: Gitea
 * sets finished steps that a report leaves out back to running, and a final report freezes them so.
 */
export function closedState(
  known: TaskState,
  stepCount: number,
  result: Result,
  /** Milliseconds since the epoch. */
  now: number,
): TaskState {
  const stoppedAt = timestampFromMs(now);
  const state = withResult(known, result, now);
  const ids = new Set(state.steps.map((step) => step.id));
  for (let id = 0n; id < BigInt(stepCount); id++)
    if (!ids.has(id)) state.steps.push(create(StepStateSchema, { id }));
  for (const step of state.steps) closeStep(step, result, stoppedAt);
  return state;
}

/** The state with a result and the time that must go with it: Gitea computes durations from it. */
export function withResult(known: TaskState, result: Result, now: number): TaskState {
  const state = clone(TaskStateSchema, known);
  state.result = result;
  state.stoppedAt ??= timestampFromMs(now);
  return state;
}

/**
 * Whether a result counts that came after the executor was told to end, though Gitea wants the job to run:
 * gitea-runner says SUCCESS of a job whose step it has just cut short, others say CANCELLED, as if a person had
 * asked for it. Only a job that had got through all of its steps is over as it says.
 */
export function gotThrough({ result, steps }: TaskState): boolean {
  const through = steps.length > 0 && steps.every((step) => step.result === Result.SUCCESS);
  return result === Result.SUCCESS && through;
}

/** The step that ran shares the job's fate; one that never began is cancelled, as gitea-runner has it. */
function closeStep(step: StepState, result: Result, stoppedAt: Timestamp): void {
  if (step.result !== Result.UNSPECIFIED) return;
  if (step.startedAt === undefined) {
    step.result = result === Result.SKIPPED ? Result.SKIPPED : Result.CANCELLED;
    return;
  }
  step.result = result === Result.FAILURE ? Result.FAILURE : Result.CANCELLED;
  step.stoppedAt = stoppedAt;
}

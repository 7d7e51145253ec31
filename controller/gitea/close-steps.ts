import type { StepRecord, TaskResult } from "../assignment/record.ts";

/**
 * Gitea takes steps by their number and ignores those that a job does not have, but leaves a step that a result
 * does not name open for ever. Where none was ever reported, nobody knows how many there are.
 */
const stepsOfAnyJob: readonly StepRecord[] = Array.from({ length: 256 }, (_, id) => ({
  id,
  logIndex: 0,
  logLength: 0,
}));

/**
 * All steps with an end: what was over stays, what had begun gets the task's result, the rest is skipped. A result
 * without them would leave them running for ever in Gitea's pages. `logRows`: how many rows the log had before ours.
 */
export function closeSteps(
  known: readonly StepRecord[],
  result: TaskResult,
  logRows: bigint | undefined,
  now: number,
): readonly StepRecord[] {
  const stoppedAt = new Date(now).toISOString();
  const steps = known.length === 0 ? stepsOfAnyJob : known;
  return steps.map((step) => {
    if (step.result !== undefined) return step;
    if (step.startedAt === undefined) return { ...step, result: "skipped" };
    // A step that was running owns all rows since it began.
    const logLength = logRows === undefined ? step.logLength : Math.max(0, Number(logRows) - step.logIndex);
    return { ...step, result, stoppedAt, logLength: Math.max(step.logLength, logLength) };
  });
}

import type { JobFacts } from "./facts.ts";
import { isRowOfJob } from "./sim-runner.ts";

/**
 * I11: the executor's rows are there once and in order, ours before or behind them. `mayLack`: its executor may not
 * have come to send the last ones; else none is missing of a success.
 */
export function violatedLog({ job, work }: JobFacts, mayLack: boolean): string | undefined {
  const log = job.task?.log ?? [];
  const first = log.findIndex(isRowOfJob);
  const last = log.findLastIndex(isRowOfJob);
  const rows = first === -1 ? [] : log.slice(first, last + 1);
  for (const [index, row] of rows.entries())
    if (row !== `row ${index} of task ${job.task?.id}`) return `row ${index} of its log is "${row}"`;
  const wanted = work.steps.reduce((sum, step) => sum + step.rows, 0);
  if (job.over === "success" && rows.length !== wanted && !mayLack)
    return `${rows.length} rows of ${wanted} are there`;
  return undefined;
}

import type { Seen, SeenJob, SeenRun } from "./workload.ts";

/** What cannot be the same in two runs of one workflow, and what to write instead. */
const particulars: readonly (readonly [RegExp, string])[] = [
  // Below the runner's home, made anew for each job.
  [/\/\S*?\/home\/work\/[0-9a-f]{16}\b/g, "<work>"],
  [/\breceived task \d+ of job/g, "received task <number> of job"],
  // It looks at all jobs of a workflow in the order of a Go map, and names the first one that it meets.
  [/('runs-on' key not defined in )\S+/g, "$1<a job>"],
  [/http:\/\/127\.0\.0\.1:\d+/g, "<gitea>"],
];

/**
 * Two runs of a workload, so that what is left to differ is a difference: numbers and temporary folders are
 * written the same, and what the repository is called.
 */
export function comparable(seen: Seen, placeName: string): Seen {
  const plain = (text: string) => {
    let plainer = text.replaceAll(`${placeName}-`, "<place>-");
    for (const [pattern, instead] of particulars) plainer = plainer.replace(pattern, instead);
    return plainer;
  };
  return mapJobs(mapRows({ runs: seen.runs.map((run) => ({ ...run, id: 0 })) }, plain), (job) => ({
    ...job,
    log: plainRows(job.log),
    steps: job.steps.map((step) => ({ ...step, lines: plainRows(step.lines) })),
  }));
}

/** gitea-runner closes the log with an empty row if it happens to have no other left. */
function plainRows(rows: readonly string[]): readonly string[] {
  const sorted = sortOutputs(rows);
  return sorted.at(-1) === "" ? sorted.slice(0, -1) : sorted;
}

/** gitea-runner shows the outputs that a step sets in the order of a Go map: in any. */
function sortOutputs(rows: readonly string[]): readonly string[] {
  const isOutput = (row: string | undefined) => row?.startsWith("::set-output:: ") === true;
  const sorted = [...rows];
  for (let from = 0; from < sorted.length; from++) {
    let to = from;
    while (isOutput(sorted[to])) to++;
    sorted.splice(from, to - from, ...sorted.slice(from, to).toSorted());
    from = to;
  }
  return sorted;
}

/** Changes every row wherever it is shown. */
export function mapRows(seen: Seen, change: (row: string) => string): Seen {
  return mapJobs(seen, (job) => ({
    ...job,
    log: job.log.map((row) => change(row)),
    steps: job.steps.map((step) => ({
      ...step,
      name: change(step.name),
      lines: step.lines.map((row) => change(row)),
    })),
  }));
}

export function mapJobs(seen: Seen, change: (job: SeenJob, name: string) => SeenJob): Seen {
  const jobsOf = (run: SeenRun) =>
    Object.fromEntries(Object.entries(run.jobs).map(([name, job]) => [name, change(job, name)]));
  return { runs: seen.runs.map((run) => ({ ...run, jobs: jobsOf(run) })) };
}

/** Where two runs differ first, in words; undefined if they do not. A deepEqual of long logs takes minutes. */
export function firstDifference(ours: unknown, theirs: unknown, at = ""): string | undefined {
  if (isObject(ours) && isObject(theirs)) {
    for (const key of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
      const found = firstDifference(ours[key], theirs[key], at === "" ? key : `${at} / ${key}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (ours === theirs) return undefined;
  return `${at}: ${excerpt(ours)} with us, ${excerpt(theirs)} with the official runner`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function excerpt(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 200);
}

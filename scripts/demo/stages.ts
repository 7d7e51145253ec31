import { stages, type Entered, type JobFacts, type Stage, type Story, type TaskFacts } from "./story.ts";

/** Where a job stands. `blocked`: it waits for the jobs that it needs. */
export type JobView = {
  readonly name: string;
  readonly backend: string;
  readonly stage: Stage | "blocked" | "done";
  /** Gitea's word, once the job is done. */
  readonly conclusion: string | undefined;
  /** Milliseconds in each stage, in the order of `stages`; undefined where it has not been. */
  readonly spent: readonly (number | undefined)[];
  /** Milliseconds since it could be taken. */
  readonly total: number | undefined;
  /** Executors that were created for it. */
  readonly attempts: number;
};

/** Where every job stands, in Gitea's order. */
export function viewJobs(story: Story, now: number): readonly JobView[] {
  const assignments = new Map([...story.names].map(([assignment, name]) => [name, assignment]));
  return story.jobs.map((job) => viewJob(job, story.tasks.get(assignments.get(job.name) ?? ""), now));
}

function viewJob(job: JobFacts, task: TaskFacts | undefined, now: number): JobView {
  const { name, backend, conclusion, completed } = job;
  const attempts = task?.attempts ?? 0;
  const over = completed === undefined ? undefined : Math.min(completed, task?.over ?? completed);
  const known = { ...task?.entered, ...job.entered };
  // One that was over before it was seen to run ran since its claim, as far as anybody knows.
  const unseen = known.running !== undefined && known.running === completed;
  const running = unseen ? task?.entered.claimed : undefined;
  const entered = inOrder(running === undefined ? known : { ...known, running }, over ?? now);
  const end = over ?? now;
  const spent = stages.map((stage, index) => {
    const begun = entered[stage];
    if (begun === undefined) return undefined;
    const next = stages.slice(index + 1).find((later) => entered[later] !== undefined);
    return (next === undefined ? end : (entered[next] ?? end)) - begun;
  });
  const begun = entered.waiting;
  const last = stages.findLast((stage) => entered[stage] !== undefined);
  return {
    name,
    backend,
    stage: completed === undefined ? (last ?? "blocked") : "done",
    conclusion: completed === undefined ? undefined : conclusion,
    spent,
    total: begun === undefined ? undefined : end - begun,
    attempts,
  };
}

/** Log lines and polls tell of the same things at different moments: no stage begins after a later one. */
function inOrder(entered: Entered, end: number): Entered {
  let latest = end;
  const ordered: { -readonly [stage in Stage]?: number } = {};
  for (const stage of stages.toReversed()) {
    const begun = entered[stage];
    if (begun === undefined) continue;
    latest = Math.min(latest, begun);
    ordered[stage] = latest;
  }
  return ordered;
}

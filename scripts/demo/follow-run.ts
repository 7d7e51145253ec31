import type { Clock } from "../../controller/platform/clock.ts";
import { isAbortOf } from "../../controller/platform/signal.ts";
import { viewJobs, type JobView } from "./stages.ts";
import { finish, hasNamelessTasks, isOver, nameTasks, seeJobs, type GiteaJob, type Story } from "./story.ts";
import type { StoryKeeper } from "./story-keeper.ts";

export type RunReader = {
  jobs(signal: AbortSignal): Promise<readonly GiteaJob[]>;
  tasks(signal: AbortSignal): Promise<readonly { readonly id: number; readonly name: string }[]>;
};

const pollMs = 200;
/** Each job makes Gitea's answer longer. */
const pollMsPerJob = 5;
const unansweredMs = 30_000;
const stuckMs = 3 * 60_000;
/** A step may take its time. */
const stuckWhileRunningMs = 20 * 60_000;

/**
 * Asks Gitea again and again, which has nothing that tells, until it says that every job is over. Rejects when Gitea
 * does not answer for 30 s, and, with where each job stands, when none has come to another stage for minutes.
 */
export async function followRun(
  keeper: StoryKeeper,
  read: RunReader,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  let answered = clock.now();
  for (;;) {
    try {
      const jobs = await read.jobs(signal);
      const at = clock.now();
      keeper.change((story) => seeJobs(story, jobs, at));
      if (hasNamelessTasks(keeper.get())) {
        const tasks = await read.tasks(signal);
        keeper.change((story) => nameTasks(story, tasks));
      }
      answered = clock.now();
    } catch (error) {
      if (isAbortOf(signal, error) || clock.now() - answered > unansweredMs) throw error;
    }
    const story = keeper.get();
    if (isOver(story)) {
      keeper.change(finish);
      return;
    }
    const stuck = stuckJobs(story, clock.now());
    if (stuck !== undefined) throw new Error(stuck);
    await clock.sleep(pollMs + pollMsPerJob * story.jobs.length, signal);
  }
}

/** What to say when nothing moves any more; undefined while there is hope. */
export function stuckJobs(story: Story, now: number): string | undefined {
  const jobs = viewJobs(story, now).filter(({ stage }) => stage !== "done");
  const limit = jobs.some(({ stage }) => stage === "running") ? stuckWhileRunningMs : stuckMs;
  const still = now - story.moved;
  if (still <= limit) return undefined;
  const where = jobs.map(({ name, stage }: JobView) => `${name} is ${stageWords[stage]}`);
  const shown = where.slice(0, 5).join(", ") + (where.length > 5 ? `, and ${where.length - 5} more` : "");
  return `nothing has moved for ${Math.round(still / 1000)} s: ${shown}`;
}

const stageWords = {
  blocked: "waiting for the jobs that it needs",
  waiting: "waiting in Gitea",
  queued: "queued",
  executor: "waiting for the identity of its executor",
  identity: "waiting for the claim of its executor",
  claimed: "claimed, without a step that has begun",
  running: "running",
  done: "done",
} as const satisfies Record<JobView["stage"], string>;

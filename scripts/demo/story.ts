import { happeningOf, type Happening } from "./narrate.ts";
import type { ControllerLine } from "../quick-start/controller-process.ts";

/** The way of a job until its end. */
export const stages = ["waiting", "queued", "executor", "identity", "claimed", "running"] as const;
export type Stage = (typeof stages)[number];

/** When each stage began, in milliseconds since the epoch, as far as it is known. */
export type Entered = Readonly<Partial<Record<Stage, number>>>;

/** What the controller has said about a task. */
export type TaskFacts = {
  readonly backend: string;
  /** The job's key in the workflow's file; the jobs of a matrix share it. */
  readonly jobKey: string;
  readonly entered: Entered;
  /** How many executors were created for it so far. */
  readonly attempts: number;
  /** When Gitea had its result. */
  readonly over?: number;
};

/** A job as Gitea shows it. */
export type GiteaJob = {
  readonly id: number;
  readonly name: string;
  readonly backend: string;
  /** `waiting` (for what it needs), `queued`, `in_progress` or `completed`. */
  readonly status: string;
  readonly conclusion?: string | undefined;
  readonly steps: readonly {
    readonly name: string;
    readonly status: string;
    readonly conclusion?: string | undefined;
  }[];
};

/** The same with the times at which it was seen. */
export type JobFacts = GiteaJob & {
  readonly entered: Entered;
  readonly completed?: number;
};

/** Everything that was heard and seen since the push: a value, made anew by each of the functions below. */
export type Story = {
  readonly pushed: number;
  readonly jobs: readonly JobFacts[];
  /** By assignment. */
  readonly tasks: ReadonlyMap<string, TaskFacts>;
  /** The name in Gitea of an assignment's job, once Gitea was asked. */
  readonly names: ReadonlyMap<string, string>;
  /** By assignment: those whose job is not over yet. */
  readonly executors: ReadonlySet<string>;
  readonly mostExecutors: number;
  /** Names of executors that the controller has deleted. */
  readonly deleted: ReadonlySet<string>;
  readonly happenings: readonly Happening[];
  /** When a job last came to another stage. */
  readonly moved: number;
  /** The run was over when Gitea was last asked; what happens now belongs to something else. */
  readonly over: boolean;
};

export function beginStory(pushed: number): Story {
  return {
    pushed,
    jobs: [],
    tasks: new Map(),
    names: new Map(),
    executors: new Set(),
    mostExecutors: 0,
    deleted: new Set(),
    happenings: [],
    moved: pushed,
    over: false,
  };
}

/** The push comes now: times count from here. */
export function push(story: Story, now: number): Story {
  return { ...story, pushed: now, moved: now };
}

/** The run is over, and nobody will ask Gitea any more. */
export function finish(story: Story): Story {
  return { ...story, over: true };
}

/** The controller logged a line. */
export function hearLine(story: Story, line: ControllerLine, now: number): Story {
  const at = timeOf(line) ?? now;
  const happening = happeningOf(line, at);
  const told = happening === undefined ? story : { ...story, happenings: [...story.happenings, happening] };
  const assignment = field(line, "assignment");
  switch (line.msg) {
    case "task stored":
      return withTask(told, assignment, at, {
        backend: field(line, "backend"),
        jobKey: field(line, "job"),
        entered: { queued: at },
        attempts: 0,
      });
    case "assignment transition":
    case "executor transition":
      return transition(told, assignment, field(line, "event"), at);
    case "task over": {
      const known = told.tasks.get(assignment);
      const ended = without(told, assignment);
      return known === undefined ? ended : withTask(ended, assignment, at, { ...known, over: at });
    }
    case "executor deleted": {
      const ended = without(told, assignment);
      return { ...ended, deleted: new Set([...ended.deleted, field(line, "executor")]) };
    }
    default:
      return told;
  }
}

function transition(story: Story, assignment: string, event: string, at: number): Story {
  const known = story.tasks.get(assignment);
  if (known === undefined) return story;
  const { entered } = known;
  switch (event) {
    case "executor_created": {
      const executors = new Set([...story.executors, assignment]);
      const mostExecutors = Math.max(story.mostExecutors, executors.size);
      // A further attempt goes the way anew from here; the time since the first one counts.
      const { identity: _, claimed: __, ...before } = entered;
      const task = { ...known, entered: { executor: at, ...before }, attempts: known.attempts + 1 };
      return withTask({ ...story, executors, mostExecutors }, assignment, at, task);
    }
    case "identity_bound":
      return withTask(story, assignment, at, { ...known, entered: { ...entered, identity: at } });
    case "runner_claimed":
      // Said again at each later delivery of the message.
      if (entered.claimed !== undefined) return story;
      return withTask(story, assignment, at, { ...known, entered: { ...entered, claimed: at } });
    default:
      return story;
  }
}

/** Gitea showed the jobs of the run. */
export function seeJobs(story: Story, seen: readonly GiteaJob[], now: number): Story {
  const known = new Map(story.jobs.map((job) => [job.id, job]));
  let moved = story.moved;
  const jobs = seen.map((job) => {
    const before = known.get(job.id);
    const after = seeJob(before, job, story, now);
    if (before?.status !== after.status || before.entered.running !== after.entered.running) moved = now;
    return after;
  });
  return { ...story, jobs, moved };
}

function seeJob(before: JobFacts | undefined, job: GiteaJob, story: Story, now: number): JobFacts {
  // A job that is there at the first look is there since the push.
  const first = before === undefined ? story.pushed : now;
  const entered: { -readonly [stage in Stage]?: number } = { ...before?.entered };
  if (job.status !== "waiting") entered.waiting ??= first;
  if (job.steps.some(({ status }) => status === "in_progress" || status === "completed"))
    entered.running ??= now;
  const completed = before?.completed ?? (job.status === "completed" ? now : undefined);
  return { ...job, entered, ...(completed === undefined ? {} : { completed }) };
}

/** Gitea told which task is which job. */
export function nameTasks(
  story: Story,
  tasks: readonly { readonly id: number; readonly name: string }[],
): Story {
  const names = new Map(story.names);
  for (const { id, name } of tasks) names.set(`gitea-task-${id}`, name);
  return { ...story, names };
}

/** Whether there is a task whose job is not known by name. */
export function hasNamelessTasks(story: Story): boolean {
  return [...story.tasks.keys()].some((assignment) => !story.names.has(assignment));
}

/** Whether Gitea says that every job is over. */
export function isOver(story: Story): boolean {
  return story.jobs.length > 0 && story.jobs.every(({ status }) => status === "completed");
}

function withTask(story: Story, assignment: string, moved: number, task: TaskFacts): Story {
  return {
    ...story,
    tasks: new Map([...story.tasks, [assignment, task]]),
    moved: Math.max(story.moved, moved),
  };
}

function without(story: Story, assignment: string): Story {
  return { ...story, executors: new Set([...story.executors].filter((other) => other !== assignment)) };
}

function field(line: ControllerLine, name: string): string {
  const value = line[name];
  return typeof value === "string" ? value : "";
}

/** When the controller wrote the line; reading it takes a while when the machine is busy. */
function timeOf(line: ControllerLine): number | undefined {
  const time = Date.parse(field(line, "time"));
  return Number.isNaN(time) ? undefined : time;
}

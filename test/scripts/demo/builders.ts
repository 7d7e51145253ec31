import {
  beginStory,
  hearLine,
  nameTasks,
  push,
  seeJobs,
  type GiteaJob,
  type Story,
} from "../../../scripts/demo/story.ts";
import type { ControllerLine } from "../../../scripts/quick-start/controller-process.ts";

/** The moment of the push in these tests. */
export const pushed = Date.parse("2026-01-01T00:00:00Z");

/** A line of the controller's log, so many milliseconds after the push. */
export function aLine(
  after: number,
  msg: string,
  fields: Readonly<Record<string, unknown>> = {},
): ControllerLine {
  return { level: "info", time: new Date(pushed + after).toISOString(), msg, ...fields };
}

/** The lines of a task's usual way: stored, executor, identity, claim, over, deleted, at the given moments. */
export function theWayOf(
  id: number,
  at: readonly number[],
  fields: { readonly job?: string; readonly backend?: string } = {},
): readonly ControllerLine[] {
  const assignment = `gitea-task-${id}`;
  const executor = `${assignment}-1-0123abcd`;
  const lines: readonly (readonly [string, object])[] = [
    ["task stored", { backend: "pod", job: "build", ...fields }],
    ["executor transition", { event: "executor_created", executor }],
    ["executor transition", { event: "identity_bound", executor }],
    ["assignment transition", { event: "runner_claimed" }],
    ["task over", { result: "success" }],
    ["executor deleted", { executor }],
  ];
  return at.map((after, index) => {
    const [msg, more] = lines[index] ?? ["", {}];
    return aLine(after, msg, { assignment, ...more });
  });
}

export function aJob(overrides: Partial<GiteaJob> = {}): GiteaJob {
  return { id: 1, name: "build", backend: "pod", status: "queued", steps: [], ...overrides };
}

/** What a job's first step looks like in Gitea while it runs. */
export const runningStep = { name: "Set up job", status: "in_progress" } as const;

/** A story in which things happened one after the other; polls come at so many milliseconds after the push. */
export function aStory(
  ...events: readonly (
    | ControllerLine
    | readonly [after: number, jobs: readonly GiteaJob[]]
    | { readonly names: Readonly<Record<number, string>> }
  )[]
): Story {
  let story = push(beginStory(pushed - 5_000), pushed);
  for (const event of events) {
    if ("msg" in event) story = hearLine(story, event, pushed);
    else if ("names" in event)
      story = nameTasks(
        story,
        Object.entries(event.names).map(([id, name]) => ({ id: Number(id), name })),
      );
    else story = seeJobs(story, event[1], pushed + event[0]);
  }
  return story;
}

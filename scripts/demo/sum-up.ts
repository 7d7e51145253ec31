import { seconds } from "./draw.ts";
import type { CleanedUp } from "./place.ts";
import { isOver, type Story } from "./story.ts";

/** Whether Gitea says that every job was a success. */
export function isSuccess(story: Story): boolean {
  return isOver(story) && story.jobs.every(({ conclusion }) => conclusion === "success");
}

/** The last line: how it went, and what was really cleaned up. */
export function sumUp(story: Story, cleaned: CleanedUp, stopped: boolean): string {
  return `${howItWent(story, stopped)}; cleaned up: ${whatWasCleaned(story, cleaned)}`;
}

function howItWent(story: Story, stopped: boolean): string {
  if (!isOver(story)) return stopped ? "Stopped" : "Failure";
  const count = story.jobs.length;
  const bad = story.jobs.filter(({ conclusion }) => conclusion !== "success").length;
  const how = bad === 0 ? `Success: ${counted(count, "job")}` : `Failure: ${bad} of ${counted(count, "job")}`;
  const done = Math.max(...story.jobs.map(({ completed }) => completed ?? story.pushed));
  return `${how}, ${seconds(done - story.pushed)} from push to done, at most ${story.mostExecutors} at once`;
}

function whatWasCleaned(story: Story, cleaned: CleanedUp): string {
  const { executors, processes, folders, runners, repositories } = cleaned;
  const all = [
    counted(story.deleted.size + executors, "executor"),
    counted(processes, "process", "processes"),
    counted(folders, "folder"),
    ...(runners === 0 ? [] : [counted(runners, "runner")]),
    ...(repositories === 0 ? [] : [counted(repositories, "repository", "repositories")]),
  ];
  return all.join(", ");
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

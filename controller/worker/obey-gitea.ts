import type { AssignmentEvent } from "../assignment/event.ts";
import type { TaskResult } from "../assignment/record.ts";

/** What Gitea says of a task: it runs, it is over or to be ended (`cancelled`), or it is not ours any more. */
export type Said = "running" | TaskResult | "gone";

/**
 * What Gitea's word makes of a task that nobody has claimed; undefined if it may go on. A cancel still wants its
 * report, an end of Gitea's own is only noted.
 */
export function obeyGitea(said: Said): AssignmentEvent | undefined {
  switch (said) {
    case "running":
      return undefined;
    case "cancelled":
      return { type: "cancel_told" };
    case "gone":
      return { type: "ended_by_gitea", result: "cancelled" };
    case "success":
    case "failure":
    case "skipped":
      return { type: "ended_by_gitea", result: said };
    default:
      return said satisfies never;
  }
}

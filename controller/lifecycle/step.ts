import type { AssignmentEvent } from "../assignment/event.ts";
import type { Executor } from "../backends/backend.ts";

/** What is to be done about an assignment. Doing it twice does no harm. */
export type Step =
  /** Decided from what there is; stored before anything else follows from it. */
  | { readonly do: "apply"; readonly event: AssignmentEvent }
  /** An executor without a record gets one; it counts as claimed. */
  | { readonly do: "adopt"; readonly executor: Executor }
  /** Nothing runs any more for this assignment. */
  | { readonly do: "release" }
  /** Its task is over for Gitea, or it is another attempt's: its processes are ended. */
  | { readonly do: "kill"; readonly executor: string; readonly reason: string }
  /** Gitea has the result: that is written down on the executor. */
  | { readonly do: "mark"; readonly executor: string }
  /** It goes with all that it left. `messageFirst`: its message must not be there any more. */
  | { readonly do: "delete"; readonly executor: string; readonly messageFirst: boolean }
  /** Gitea has the result and no executor is left: report, message and record go, in this order. */
  | { readonly do: "forget" };

export function applies(event: AssignmentEvent | undefined): readonly Step[] {
  return event === undefined ? [] : [{ do: "apply", event }];
}

export function kills(executors: readonly Executor[], reason: string): readonly Step[] {
  return executors.map(({ name }): Step => ({ do: "kill", executor: name, reason }));
}

export function deletes(executors: readonly Executor[]): readonly Step[] {
  return executors.map(({ name }): Step => ({ do: "delete", executor: name, messageFirst: false }));
}

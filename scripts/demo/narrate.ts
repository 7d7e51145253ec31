import type { ControllerLine } from "../quick-start/controller-process.ts";

/** What a line of the controller's log tells of a job, for somebody who watches. */
export type Happening = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly assignment: string;
  readonly text: string;
  /** Not the way that things should go: worth a line also where a table shows the rest. */
  readonly trouble: boolean;
};

const transitions: Readonly<Record<string, string>> = {
  received: "taken from the queue",
  executor_found: "its executor is there already",
  executor_created: "executor started",
  identity_bound: "identity given to the executor",
  runner_claimed: "claimed: gitea-runner runs it",
};

const troubles: Readonly<Record<string, string>> = {
  claim_timeout: "its executor has not claimed it yet",
  backend_retry: "something failed, it will be tried again",
  identity_target_pending: "its executor has no identity yet",
};

/** Undefined for a line that tells nothing of a job. */
export function happeningOf(line: ControllerLine, at: number): Happening | undefined {
  const field = (name: string) => {
    const value = line[name];
    return typeof value === "string" ? value : "";
  };
  const assignment = field("assignment");
  const tell = (text: string, trouble = false) => ({ at, assignment, text, trouble });
  switch (line.msg) {
    case "task stored":
      return tell("fetched from Gitea, stored in the queue");
    case "assignment transition":
    case "executor transition": {
      const event = field("event");
      const executor = field("executor") === "" ? "" : ` ${field("executor")}`;
      const text = transitions[event];
      if (text !== undefined) return tell(text + executor);
      const trouble = troubles[event];
      return trouble === undefined ? undefined : tell(trouble, true);
    }
    case "task over":
      return tell(`Gitea has its result: ${field("result")}`);
    case "executor deleted":
      return tell(`executor deleted ${field("executor")}`);
    case "task ended for its executor":
    case "assignment processing error":
    case "backend lifecycle error":
      return tell(`${line.msg}: ${field("reason") + field("error")}`, true);
    default:
      return undefined;
  }
}

import type { ControllerLine } from "../quick-start/controller-process.ts";

/** What a line of the controller's log tells of a job, for somebody who watches. */
export type Happening = { readonly job: string; readonly text: string };

const transitions: Readonly<Record<string, string>> = {
  received: "taken from the queue",
  capacity_wait: "waits for a free place",
  executor_found: "its executor is there already",
  executor_created: "executor started",
  identity_bound: "identity given to the executor",
  runner_claimed: "claimed: gitea-runner runs it",
  claim_timeout: "its executor has not claimed it yet",
  backend_retry: "something failed, it will be tried again",
};

/** Turns log lines into happenings; remembers which assignment is which job. */
export function createNarrator(): (line: ControllerLine) => Happening | undefined {
  const jobs = new Map<string, string>();
  return (line) => {
    const field = (name: string) => {
      const value = line[name];
      return typeof value === "string" ? value : "";
    };
    const assignment = field("assignment");
    const job = jobs.get(assignment) ?? assignment;
    switch (line.msg) {
      case "task stored": {
        const name = `${field("job")} (${field("backend")})`;
        jobs.set(assignment, name);
        return { job: name, text: "fetched from Gitea, stored in the queue" };
      }
      case "assignment transition":
      case "executor transition": {
        const text = transitions[field("event")];
        const executor = field("executor") === "" ? "" : ` ${field("executor")}`;
        return text === undefined ? undefined : { job, text: text + executor };
      }
      case "task over":
        return { job, text: `Gitea has its result: ${field("result")}` };
      case "executor deleted":
        return { job, text: `executor deleted ${field("executor")}` };
      case "task ended for its executor":
      case "assignment processing error":
      case "backend lifecycle error":
        return { job, text: `${line.msg}: ${field("reason") + field("error")}` };
      default:
        return undefined;
    }
  };
}

import type { FailureEntry } from "./failure-kind.ts";

/** Why a job cannot be run here, whatever is tried: it is failed as soon as it is fetched. */
export const refusals = {
  labels: {
    fixer: "workflow author",
    sentence: "its runs-on is not one that is offered here",
    advice: "write one of the offered labels into runs-on",
  },
  fork_on_pod: {
    fixer: "workflow author",
    sentence: "code from a fork does not run in a Pod, where it would be root on the node",
    advice: "use runs-on: [self-hosted, vm]",
  },
  bad_workflow: {
    fixer: "workflow author",
    sentence: "what Gitea sent of the workflow makes no job that can be run",
    advice: "correct the workflow",
  },
  too_large: {
    fixer: "cluster",
    sentence: "it is too large to be stored",
    advice: "raise max_payload of the NATS server; a smaller workflow or fewer secrets help as well",
  },
  task_unreadable: {
    fixer: "us",
    sentence: "gitea-dynamic-runner cannot read it",
    advice: "look at the log of gitea-dynamic-runner and check its capability keys, then run the job again",
  },
} as const satisfies Readonly<Record<string, FailureEntry>>;

export type RefusalReason = keyof typeof refusals;

import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { Result, type UpdateTaskRequest } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { GiteaModel } from "../fakes/fake-gitea-model.ts";
import type { Facts, JobFacts } from "./facts.ts";
import type { Observed } from "./observed.ts";
import type { SimCluster } from "./sim-cluster.ts";
import type { Troubles } from "./troubles.ts";

export type LiveChecksOptions = {
  readonly clock: { now(): number };
  readonly facts: Facts;
  readonly model: GiteaModel;
  readonly clusters: Readonly<Record<BackendKind, Pick<SimCluster, "machines">>>;
  readonly capacity: Readonly<Record<BackendKind, number>>;
  readonly troubles: Troubles;
  readonly outrage: (what: string) => void;
};

/** What must not be at any moment, whatever is wrong in the world. */
export type LiveChecks = {
  observe(event: Observed): void;
  /** A job's first step begins. */
  ran(job: JobFacts): void;
  /** An instance has the answer to its claim, of a job that is not over. */
  claimed(job: JobFacts): void;
};

/** For so long a report that was held up may come behind a newer one. */
const overtakenMs = 60_000;

export function createLiveChecks(options: LiveChecksOptions): LiveChecks {
  const { clock, facts, model, clusters, capacity, troubles, outrage } = options;

  /** Gitea sets a step that is over back to running when a report does not say so. */
  const resurrected = ({ state }: UpdateTaskRequest) => {
    const task = state === undefined ? undefined : model.tasks.get(state.id);
    if (state === undefined || task?.result !== Result.UNSPECIFIED) return;
    // The next report puts that right.
    const now = clock.now();
    if (troubles.during(now - overtakenMs, now, ["facade", "gitea", "leader"]) > 0) return;
    for (const [index, { shown, started }] of task.steps.entries()) {
      if (!started || shown === "queued" || shown === "in_progress") continue;
      const said = state.steps.find(({ id }) => id === BigInt(index));
      if (said === undefined || said.result === Result.UNSPECIFIED)
        outrage(`job ${facts.ofTask(state.id)?.number ?? "?"}: step ${index} is over, and runs again`);
    }
  };

  /** Those that came late, or should be gone, nobody can count. */
  const overfull = (executor: string) => {
    for (const kind of ["pod", "vm"] as const) {
      const { machines } = clusters[kind];
      if (!machines.has(executor)) continue;
      const counted = [...machines.values()].filter(
        ({ state, late, deletedAt }) => state.phase !== "ended" && !late && deletedAt === undefined,
      );
      if (counted.length > capacity[kind])
        outrage(`I3: ${counted.length} executors live on ${kind}, ${capacity[kind]} fit`);
    }
  };

  return {
    observe: (event) => {
      if (event.kind === "update-task" && !event.late) resurrected(event.request);
      if (event.kind === "made") overfull(event.executor);
    },
    ran: ({ number, runs }) => {
      if (runs.length > 1) outrage(`I1: job ${number} runs ${runs.length} times`);
    },
    claimed: ({ number, claims }) => {
      if (claims.size > 1) outrage(`I1: ${claims.size} instances have claimed job ${number}`);
    },
  };
}

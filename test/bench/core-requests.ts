import { currentAttempt } from "../../controller/assignment/record.ts";
import type { CorePorts } from "../../controller/core-ports.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { createFakeBackend } from "../fakes/fake-backend.ts";
import { createGiteaModel } from "../fakes/fake-gitea-model.ts";
import {
  type CoreUnderTest,
  createCoreUnderTest,
  registeredAt,
  untilAborted,
} from "../support/core-under-test.ts";

/** Calls a minute, by what they are. */
export type RequestCounts = ReadonlyMap<string, number>;

export type RequestLoad = { readonly running: number; readonly queued: number };

/** The bootstrap's own rhythm: it repeats the last state as often when nothing new comes of the runner. */
const executorBeatMs = 10_000;
/** By then all that are to run have claimed … */
const fillMs = 5 * 60_000;
/** … and this long afterwards each has its rhythm. */
const warmUpMs = 20_000;
const measuredMinutes = 2;
const secondMs = 1_000;
const never = new AbortController().signal;

/**
 * Counts the calls on the core's port to Gitea, in two minutes of a clock that is stepped: counts, no timings. The
 * executors run and print nothing; each beats through the facade's service.
 */
export async function countRequests({ running, queued }: RequestLoad): Promise<RequestCounts> {
  const model = createGiteaModel(() => one.clock.now());
  const counts = new Map<string, number>();
  const backend = createFakeBackend({ kind: "pod", clock: { now: () => one.clock.now() } });
  const capacity = Math.max(1, running);
  // Room for one more keeps the fetch going, as it does for a backend that is not at its bound.
  const backlog = Math.max(capacity, queued + 1);
  const one: CoreUnderTest = createCoreUnderTest({
    gitea: counted(registeredAt(model), counts),
    backends: [{ backend, capacity, backlog, timeoutMs: 3 * 3_600_000, run: untilAborted }],
    random: Math.random,
  });
  await one.core.recover(never);
  for (let index = 0; index < running + queued; index++) model.addJob({ runsOn: ["self-hosted", "pod"] });
  const stopping = new AbortController();
  const working = runTasks([...one.core.leaderTasks, ...one.core.relayTasks], stopping.signal);
  const executors: { readonly beat: () => Promise<unknown>; at: number }[] = [];
  const known = new Set<string>();
  const second = async () => {
    await one.clock.step(secondMs);
    for (const { record } of one.core.assignments.all()) {
      if (record.phase.name !== "starting" || known.has(record.assignment.id)) continue;
      known.add(record.assignment.id);
      executors.push({ beat: executor(one, record), at: one.clock.now() + Math.random() * executorBeatMs });
    }
    const due = executors.filter(({ at }) => at <= one.clock.now());
    for (const each of due) each.at += executorBeatMs;
    await Promise.all(due.map(({ beat }) => beat()));
  };
  const isFull = () => {
    const phases: Readonly<Record<string, number>> = one.core.figures.phases();
    return phases["claimed"] === running && phases["queued"] === queued;
  };
  for (let past = 0; !isFull(); past += secondMs) {
    if (past >= fillMs) throw new Error(`${running} never ran with ${queued} waiting`);
    await second();
  }
  for (let past = 0; past < warmUpMs; past += secondMs) await second();
  counts.clear();
  for (let past = 0; past < measuredMinutes * 60_000; past += secondMs) await second();
  stopping.abort(new Error("the bench is over"));
  await working;
  return new Map([...counts].map(([name, count]) => [name, count / measuredMinutes]));
}

/** Its first call claims the task. */
function executor(one: CoreUnderTest, record: Parameters<typeof currentAttempt>[0]) {
  const { assignment } = record;
  const attempt = currentAttempt(record);
  if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
  const calls = one.client({ assignment, attempt, peer: assignment.spiffeId });
  const startedAt = { seconds: BigInt(Math.floor(one.clock.now() / 1000)) };
  return () => calls.updateTask({ state: { id: assignment.taskId, steps: [{ id: 0n, startedAt }] } });
}

function counted(gitea: CorePorts["gitea"], counts: Map<string, number>): CorePorts["gitea"] {
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  return {
    declare: (...args) => {
      count("Declare");
      return gitea.declare(...args);
    },
    fetchTask: (...args) => {
      count("FetchTask");
      return gitea.fetchTask(...args);
    },
    updateTask: (...args) => {
      const [{ state }] = args;
      count(
        state?.steps?.length === undefined || state.steps.length === 0
          ? "UpdateTask, ours"
          : "UpdateTask, executors'",
      );
      return gitea.updateTask(...args);
    },
    updateLog: (...args) => {
      count("UpdateLog");
      return gitea.updateLog(...args);
    },
  };
}

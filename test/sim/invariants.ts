import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Incident, Plan } from "./plan.ts";
import type { SimController } from "./sim-controller.ts";
import { simLimits } from "./scale.ts";
import type { World, WorldJob } from "./world.ts";

/** Looks at the world while things happen: what must hold at every moment. */
export function createWatch(world: World, plan: Plan): () => string | undefined {
  const over = new Set<string>();
  // A report that was held up on its way may come behind a newer one; the next beat puts that right.
  const mayOvertake = plan.incidents.some(({ do: what }) => overtaking.includes(what));
  const resurrected = (): string | undefined => {
    if (mayOvertake) return undefined;
    for (const { number, job } of world.jobs.values())
      for (const [index, { shown }] of (job.task?.steps ?? []).entries()) {
        const step = `${number}/${index}`;
        if (shown === "in_progress" && over.has(step)) return `job ${number}: step ${index} runs again`;
        if (shown !== "in_progress" && shown !== "queued") over.add(step);
      }
    return undefined;
  };
  return () => {
    for (const { number, runs } of world.jobs.values())
      if (runs > 1) return `I1: job ${number} has run ${runs} times`;
    return resurrected() ?? overfull(world, plan);
  };
}

const overtaking: readonly Incident["do"][] = ["pause", "weather", "down"];

/** Executors that appear or stay though nobody could know are no fault of the counting. */
const clouds: readonly Incident["do"][] = [
  "late-creates",
  "linger",
  "stale-lists",
  "pause",
  "lose-lease",
  "lose-bucket",
  "weather",
  "down",
];

function overfull({ backends }: World, { capacity, incidents }: Plan): string | undefined {
  if (incidents.some(({ do: what }) => clouds.includes(what))) return undefined;
  for (const kind of ["pod", "vm"] as const) {
    const alive = [...backends[kind].machines.values()].filter(({ state }) => state.phase !== "ended");
    if (alive.length > capacity[kind])
      return `I3: ${alive.length} executors on ${kind}, ${capacity[kind]} fit`;
  }
  return undefined;
}

/** Whether everything has come to an end. */
export function isOver({ jobs, backends, bucket, stream }: World): boolean {
  return (
    [...jobs.values()].every(({ job }) => job.over !== undefined) &&
    Object.values(backends).every(({ machines }) => machines.size === 0) &&
    bucket.keys.length === 0 &&
    stream.sequences.length === 0
  );
}

/** What must hold when the world has been well for long enough. */
export function violatedAtEnd(
  world: World,
  plan: Plan,
  leader: SimController | undefined,
): string | undefined {
  const failure = leader?.failure();
  if (failure !== undefined) return `the controller failed: ${String(failure)}`;
  for (const job of world.jobs.values()) {
    const violated = violatedBy(job, world, plan);
    if (violated !== undefined) return violated;
  }
  const machines = Object.values(world.backends).flatMap((backend) => [...backend.machines.keys()]);
  if (machines.length > 0) return `I4: left behind: ${machines.join(", ")}`;
  if (world.bucket.keys.length > 0) return `records are left: ${world.bucket.keys.join(", ")}`;
  if (world.stream.sequences.length > 0) return `messages are left: ${world.stream.sequences.join(", ")}`;
  return undefined;
}

function violatedBy(mine: WorldJob, world: World, plan: Plan): string | undefined {
  const { job, number } = mine;
  const shown = world.gitea.model.shown(job);
  if (job.over === undefined) return `I2: job ${number} is ${shown.job} for ever`;
  const rows = violatedLog(mine);
  if (rows !== undefined) return `I11: job ${number}: ${rows}`;
  if (mine.delivered === Result.SUCCESS && job.over !== "success" && mine.cancelledAt === undefined)
    if (job.task !== undefined && job.task.ends > 0)
      return `job ${number}: its success was taken from its executor, and it is shown as ${job.over}`;
  const open = shown.steps.filter((step) => step === "in_progress");
  if (job.over === "success" && open.length > 0) return `job ${number}: a step of it runs for ever`;
  if (job.over === "success" || (mine.cancelledAt !== undefined && job.over === "cancelled"))
    return undefined;
  if (mine.cancelledAt === undefined && job.over === "cancelled" && job.task !== undefined)
    return isExcused(mine, world, plan) ? undefined : `job ${number}: cancelled by nobody`;
  return isExcused(mine, world, plan)
    ? undefined
    : `job ${number} ended as ${job.over} though nothing happened that may fail it: ${job.task?.log.at(-3) ?? ""}`;
}

/** The executor's rows: once, in order, and all of them when the job succeeded. */
function violatedLog({ job, work }: WorldJob): string | undefined {
  const log = job.task?.log ?? [];
  const numbers = log.flatMap((row) => {
    const match = /^row (\d+) of task (\d+)$/.exec(row);
    return match === null ? [] : [Number(match[1])];
  });
  for (const [index, row] of numbers.entries())
    if (row !== index) return `row ${index} of the log is row ${row} of the job`;
  const wanted = work.steps.reduce((sum, { rows }) => sum + rows, 0);
  if (job.over === "success" && numbers.length !== wanted)
    return `${numbers.length} rows of ${wanted} are there`;
  return undefined;
}

const handOvers: readonly Incident["do"][] = ["crash", "upgrade", "pause", "lose-lease", "wrong-keys"];
const losses: readonly Incident["do"][] = ["lose-stream", "lose-tail", "restore-stream", "lose-bucket"];

/** Whether what happened may fail a job. A gentle plan has no excuses but the protocol's own. */
function isExcused({ job }: WorldJob, { stream }: World, { gentle, incidents }: Plan): boolean {
  if (!gentle) return true;
  // Gitea hands a task out once: it is lost with an answer, or with a process that had not stored it yet.
  if (job.task !== undefined && !stream.everStored(job.task.id)) return true;
  const has = (kinds: readonly Incident["do"][]) => incidents.some(({ do: what }) => kinds.includes(what));
  // What is lost from the one store while nobody is there who remembers it.
  if (has(losses) && has(handOvers)) return true;
  if (incidents.filter(({ do: what }) => losses.includes(what)).length > 1) return true;
  return outage(incidents) > simLimits.zombieMs / 2;
}

/** How long peers were away in all, at most. */
function outage(incidents: readonly Incident[]): number {
  return incidents.reduce((sum, incident) => {
    switch (incident.do) {
      case "down":
      case "lose-lease":
      case "pause":
        return sum + incident.ms;
      case "crash":
        return sum + incident.restartMs;
      case "weather":
      case "late-creates":
        return sum + incident.ms;
      default:
        return sum;
    }
  }, 0);
}

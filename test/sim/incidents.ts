import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import { failureBeforeClaim } from "../../controller/assignment/failure-at-claim.ts";
import { failureFor } from "../../controller/assignment/failure.ts";
import type { Hit } from "./facts.ts";
import { loseBucket, loseMessages } from "./losses.ts";
import type { Happening, Incident, Plan, When } from "./plan.ts";
import { goodManners, type Manners } from "./sim-cluster.ts";
import { calm } from "./sim-network.ts";
import { moment, type Trouble } from "./troubles.ts";
import type { World } from "./world.ts";

/** How often the stream is put aside for a restore. */
const snapshotMs = 10_000;

/** Plays the people, the machines and the bad luck of a plan. Answers how many incidents are still to come. */
export function scheduleIncidents(world: World, plan: Plan): { readonly left: () => number } {
  const { clock, history, moments, stream } = world;
  let left = plan.incidents.length;
  const snapshots: { readonly at: number; readonly restore: () => void }[] = [];
  const snap = () => {
    snapshots.push({ at: clock.now(), restore: stream.snapshot() });
    if (left > 0) clock.after(snapshotMs, snap);
  };
  if (plan.incidents.some(({ do: what }) => what === "restore-stream")) snap();
  const restore = (ageMs: number) =>
    snapshots.findLast(({ at }) => at <= clock.now() - ageMs)?.restore ?? (() => undefined);

  const begin = (incident: Incident) => {
    left--;
    if (incident.do !== "push") history.note(`incident: ${JSON.stringify(incident)}`);
    happen(world, incident, restore);
  };
  const schedule = (when: When, callback: () => void) => {
    if (typeof when === "number") clock.after(when, callback);
    else moments.on(when.after, when.job, () => clock.after(when.ms, callback));
  };
  for (const incident of plan.incidents) schedule(incident.at, () => begin(incident));
  return { left: () => left };
}

function happen(world: World, incident: Happening, restore: (ageMs: number) => () => void): void {
  const { clock, network, gitea, leadership, troubles } = world;
  switch (incident.do) {
    case "push":
      return push(world, incident);
    case "cancel": {
      const found = world.facts.jobs.get(incident.job);
      if (found === undefined || found.job.over !== undefined) return;
      found.cancelledAt ??= clock.now();
      gitea.model.cancel(found.job);
      return;
    }
    case "crash":
      return leadership.crash(incident.restartMs);
    case "upgrade":
      return leadership.upgrade();
    case "pause":
      return leadership.pause(incident.ms, incident.wakesForMs);
    case "lose-lease":
      return leadership.loseLease(incident.ms);
    case "wrong-keys":
      leadership.useKeys("other");
      leadership.upgrade();
      troubles.last("leader", incident.ms);
      clock.after(incident.ms, () => {
        leadership.useKeys("both");
        leadership.upgrade();
      });
      return;
    case "down":
      troubles.last(incident.peer, incident.ms);
      network.setDown(incident.peer, incident.how);
      clock.after(incident.ms, () => network.setDown(incident.peer, false));
      return;
    case "weather":
      troubles.last(incident.peer, incident.ms);
      network.setWeather(incident.peer, incident.weather);
      clock.after(incident.ms, () => network.setWeather(incident.peer, calm));
      return;
    case "log-store":
      troubles.last("log-store", incident.ms);
      gitea.model.setLogStore(false);
      clock.after(incident.ms, () => gitea.model.setLogStore(true));
      return;
    case "lose-stream":
    case "lose-tail":
    case "restore-stream":
      return loseMessages(world, incident, restore);
    case "lose-bucket":
      return loseBucket(world, incident.anewMs);
    case "clock-step":
      troubles.last("clock", Math.abs(incident.ms));
      leadership.leader()?.process.shiftClock(incident.ms);
      return;
    case "stale-lists":
      return misbehave(world, incident, { staleMs: incident.staleMs });
    case "late-creates":
      return misbehave(world, incident, { lateCreate: incident.chance, lateMs: incident.lateMs });
    case "linger":
      return misbehave(world, incident, { lingerMs: incident.lingerMs });
    case "bad-starts":
      return misbehave(world, incident, { diesAtStart: incident.chance });
    case "refuse-creates":
      return misbehave(world, incident, { refuses: { kind: incident.kind, reason: incident.reason } });
    case "end-executor":
    case "vanish-executor":
    case "ghost-executor":
    case "stop-executor":
    case "start-again":
      return toExecutor(world, incident);
    case "intrude":
      return world.intrude(incident.nth, incident.as);
    default:
      incident satisfies never;
  }
}

function push({ gitea, facts, history }: World, incident: Extract<Happening, { do: "push" }>): void {
  const { job: number, backend, work } = incident;
  const context = { job: `job-${number}` };
  const job = gitea.model.addJob({
    runsOn: ["self-hosted", backend],
    steps: work.steps.length,
    context,
  });
  facts.add({
    number,
    job,
    backend,
    work,
    runs: [],
    claims: new Set(),
    executors: new Set(),
    hits: [],
    startFailures: [],
    rows: [],
    told: [],
    forgotten: { record: false, message: false },
  });
  history.note(`push of job ${number} for ${backend}`);
}

function misbehave(
  { clock, clusters, troubles }: World,
  { backend, ms }: { readonly backend: "pod" | "vm"; readonly ms: number },
  manners: Partial<Manners>,
): void {
  const cluster = clusters[backend];
  troubles.last("cluster", ms);
  cluster.manners = { ...goodManners, ...manners };
  clock.after(ms, () => {
    cluster.manners = goodManners;
  });
}

type ToExecutor = Exclude<Extract<Happening, { readonly nth: number }>, { readonly do: "intrude" }>;

function toExecutor(world: World, incident: ToExecutor): void {
  const { clock, clusters, hosts, facts, troubles } = world;
  const host = hosts.all[incident.nth % Math.max(1, hosts.all.length)];
  if (host === undefined) return;
  const job = facts.ofExecutor(host.name);
  const cluster = Object.values(clusters).find(({ machines }) => machines.has(host.name));
  const alive = cluster?.machines.get(host.name)?.state.phase !== "ended";
  if (cluster === undefined || !alive || host.process.state === "dead") return;
  const hit = (what: Hit["what"], ms = 0) => {
    job?.hits.push({ at: clock.now(), what, ms });
  };
  const fail = (what: FailureReason, isKnown: boolean) => {
    hit(what);
    const { reason } = failureBeforeClaim(failureFor(what, ""));
    if (job?.claims.size === 0) job.startFailures.push({ at: clock.now(), reason, isKnown });
  };
  troubles.last("executor" satisfies Trouble, incident.do === "stop-executor" ? incident.ms : moment);
  switch (incident.do) {
    case "end-executor":
      fail(incident.cause, true);
      return cluster.end(host.name, "ended by the scenario", incident.cause);
    case "vanish-executor":
      fail("vanished", false);
      return cluster.vanish(host.name);
    case "ghost-executor":
      hit("ghost");
      return cluster.lose(host.name);
    case "stop-executor":
      hit("stopped", incident.ms);
      host.process.stop();
      clock.after(incident.ms, () => host.process.goOn());
      return;
    case "start-again":
      // Before that a lock on the machine keeps it from starting.
      if (job !== undefined && job.claims.size > 0) host.again();
      return;
    default:
      incident satisfies never;
  }
}

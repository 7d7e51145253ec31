import { incidentMs, type Incident, type Plan } from "./plan.ts";
import { goodManners } from "./sim-backend.ts";
import type { SimController } from "./sim-controller.ts";
import { calm } from "./sim-network.ts";
import { simTimes, scale } from "./scale.ts";
import type { World } from "./world.ts";

/** How long a lease lasts that nobody renews, and by when its holder has noticed. */
const leaseMs = 15_000 / scale;
const renewDeadlineMs = 10_000 / scale;

/** Plays the operator, the lease and bad luck. */
export function scheduleIncidents(world: World, plan: Plan): { leader(): SimController | undefined } {
  const { clock, network, backends, stream, bucket, gitea, note } = world;
  let leader: SimController | undefined = world.startController("right");
  let keys: "right" | "wrong" = "right";
  const snapshots: { readonly at: number; readonly restore: () => void }[] = [];
  const snap = () => {
    snapshots.push({ at: clock.now(), restore: stream.snapshot() });
    if (clock.now() - world.startedAt < incidentMs) clock.after(1_000, snap);
  };
  if (plan.incidents.some(({ do: what }) => what === "restore-stream")) snap();

  const startLater = (ms: number) => {
    clock.after(ms, () => {
      leader ??= world.startController(keys);
    });
  };
  const handOver = (ms: number): SimController | undefined => {
    const former = leader;
    leader = undefined;
    startLater(ms);
    return former;
  };
  const executor = (nth: number) => world.executors[nth % Math.max(1, world.executors.length)];

  const happen = (incident: Incident): void => {
    if (incident.do !== "push") note(`incident: ${JSON.stringify(incident)}`);
    switch (incident.do) {
      case "push": {
        const { job: number, backend, work } = incident;
        const job = gitea.model.addJob({ runsOn: ["self-hosted", backend], steps: work.steps.length });
        world.jobs.set(number, { number, job, work, runs: 0 });
        note(`push of job ${number} for ${backend}`);
        return;
      }
      case "cancel": {
        const found = world.jobs.get(incident.job);
        if (found === undefined) return;
        found.cancelledAt ??= clock.now();
        gitea.model.cancel(found.job);
        return;
      }
      case "crash":
        handOver(incident.restartMs + leaseMs)?.process.kill();
        return;
      case "upgrade":
        handOver(200)?.stop();
        return;
      case "pause": {
        const paused = handOver(leaseMs);
        paused?.process.stop();
        clock.after(incident.ms, () => {
          paused?.process.goOn();
          // Its first look at the time tells it that the deadline for renewing has passed.
          clock.after(incident.wakesForMs, () => paused?.stopLeading());
          clock.after(incident.wakesForMs + leaseMs, () => paused?.stop());
        });
        return;
      }
      case "lose-lease": {
        const former = handOver(renewDeadlineMs + incident.ms);
        clock.after(renewDeadlineMs, () => former?.stopLeading());
        clock.after(renewDeadlineMs + incident.ms, () => former?.stop());
        return;
      }
      case "down":
        network.setDown(incident.peer, incident.how);
        clock.after(incident.ms, () => network.setDown(incident.peer, false));
        return;
      case "weather":
        network.setWeather(incident.peer, incident.weather);
        clock.after(incident.ms, () => network.setWeather(incident.peer, calm));
        return;
      case "log-store":
        gitea.model.setLogStore(false);
        clock.after(incident.ms, () => gitea.model.setLogStore(true));
        return;
      case "lose-stream":
        stream.lose();
        return;
      case "lose-tail":
        stream.loseTail(incident.count);
        return;
      case "restore-stream": {
        const old = snapshots.findLast(({ at }) => at <= clock.now() - incident.ageMs);
        old?.restore();
        return;
      }
      case "lose-bucket":
        bucket.lose();
        clock.after(incident.anewMs, () => bucket.makeAnew());
        return;
      case "wrong-keys":
        keys = "wrong";
        handOver(200)?.stop();
        clock.after(incident.ms, () => {
          keys = "right";
          handOver(200)?.stop();
        });
        return;
      case "clock-step":
        leader?.process.shiftClock(incident.ms);
        return;
      case "stale-lists":
        misbehave(incident.backend, { staleMs: incident.staleMs }, incident.ms);
        return;
      case "late-creates":
        misbehave(incident.backend, { lateCreate: 0.7, lateMs: incident.lateMs }, incident.ms);
        return;
      case "linger":
        misbehave(incident.backend, { lingerMs: incident.lingerMs }, incident.ms);
        return;
      case "bad-starts":
        misbehave(incident.backend, { diesAtStart: 0.5 }, incident.ms);
        return;
      case "refuse-creates":
        misbehave(
          incident.backend,
          { refuses: { kind: incident.kind, reason: incident.reason } },
          incident.ms,
        );
        return;
      case "end-executor": {
        const name = executor(incident.nth)?.name ?? "";
        for (const backend of Object.values(backends)) backend.end(name, incident.cause);
        return;
      }
      case "vanish-executor": {
        const name = executor(incident.nth)?.name ?? "";
        for (const backend of Object.values(backends)) backend.vanish(name);
        return;
      }
      case "stop-executor": {
        const stopped = executor(incident.nth);
        stopped?.stop();
        clock.after(incident.ms, () => stopped?.goOn());
        return;
      }
      default:
        incident satisfies never;
    }
  };
  const misbehave = (kind: "pod" | "vm", manners: Partial<typeof goodManners>, ms: number) => {
    const backend = backends[kind];
    backend.manners = { ...goodManners, ...manners };
    clock.after(ms, () => {
      backend.manners = goodManners;
    });
  };

  for (const incident of plan.incidents) clock.after(incident.at, () => happen(incident));
  return { leader: () => leader };
}

/** Long enough for everything that has a deadline to meet it, once the world is well again. */
export const settleMs = 2 * (simTimes.endlessMs + simTimes.terminalGraceMs + simTimes.pendingMs);

import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { FakeJob } from "../fakes/fake-gitea-model.ts";
import { parseKeyRing } from "../../controller/identity/key-ring.ts";
import type { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Plan } from "./plan.ts";
import { createPrng, type Prng } from "./prng.ts";
import { simBootstrapTimes, simLimits, simTimes } from "./scale.ts";
import { createSimBackend, type SimBackend } from "./sim-backend.ts";
import { createSimClock, type SimClock } from "./sim-clock.ts";
import { simOwner, simTrustDomain, startSimController, type SimController } from "./sim-controller.ts";
import { runSimExecutor, type SimJob } from "./sim-executor.ts";
import { createSimFacade, type SimFacade } from "./sim-facade.ts";
import { createSimGitea, type SimGitea } from "./sim-gitea.ts";
import { createSimStream, type SimStream } from "./sim-jetstream.ts";
import { createSimBucket, type SimBucket } from "./sim-key-value.ts";
import { createSimLogger } from "./sim-log.ts";
import { createSimNetwork, type SimNetwork } from "./sim-network.ts";
import { createSimProcess, type SimProcess } from "./sim-process.ts";

/** A job as the simulation's people know it. */
export type WorldJob = {
  readonly number: number;
  readonly job: FakeJob;
  readonly work: SimJob;
  /** How often its first step began, in all executors. */
  runs: number;
  cancelledAt?: number;
  /** What its executor was told that it need not care for any more. */
  delivered?: Result;
};

export type World = {
  readonly clock: SimClock;
  readonly startedAt: number;
  readonly prng: Prng;
  readonly network: SimNetwork;
  readonly gitea: SimGitea;
  readonly stream: SimStream;
  readonly bucket: SimBucket;
  readonly facade: SimFacade;
  readonly backends: Readonly<Record<BackendKind, SimBackend>>;
  readonly jobs: Map<number, WorldJob>;
  /** The processes of executors, in the order in which they began. */
  readonly executors: SimProcess[];
  readonly history: readonly string[];
  note(text: string): void;
  startController(keys: "right" | "wrong"): SimController;
};

const rightKey = "11".repeat(32);
const wrongKey = "22".repeat(32);
const backendTimeoutMs = 4 * 60 * 60_000;

/** Everything that a plan happens to, well and idle. */
export function createWorld({ seed, capacity }: Pick<Plan, "seed" | "capacity">): World {
  const startedAt = Date.parse("2026-01-01T00:00:00Z");
  const clock = createSimClock(startedAt);
  const prng = createPrng(seed).fork("world");
  const history: string[] = [];
  const note = (text: string) => {
    history.push(`${((clock.now() - startedAt) / 1000).toFixed(3)} ${text}`);
  };
  const network = createSimNetwork({ clock, prng: prng.fork("network"), note });
  const gitea = createSimGitea({ clock, network, ...simLimits });
  const stream = createSimStream({ clock, network, capacity, ...simLimits });
  const bucket = createSimBucket({ network });
  const facade = createSimFacade({ network, prng: prng.fork("facade") });
  const jobs = new Map<number, WorldJob>();
  const executors: SimProcess[] = [];
  const lives = prng.fork("executors");

  const backendOf = (kind: BackendKind) =>
    createSimBackend({
      kind,
      owner: simOwner,
      trustDomain: simTrustDomain,
      clock,
      network,
      prng: prng.fork(kind),
      note,
      boot: (name, request, over) => {
        const process = createSimProcess(name, clock);
        executors.push(process);
        const { taskId } = request.metadata.assignment;
        const mine = [...jobs.values()].find(({ job }) => job.task?.id === taskId);
        if (mine === undefined) throw new Error(`${name} runs no job of the plan`);
        note(`${name} boots`);
        void runSimExecutor({
          process,
          facade,
          request,
          job: mine.work,
          instance: lives.hex(32),
          identityMs: lives.between(20, 300),
          times: simBootstrapTimes,
          log: createSimLogger(name, note),
          exitMs: lives.between(0, 800),
          onDelivered: (result) => {
            mine.delivered ??= result;
          },
          onRun: () => {
            mine.runs++;
            note(`${name} runs the job`);
          },
        }).then((how) => {
          note(`${name} ends: ${how}`);
          over(how);
        });
        return () => {
          process.kill();
        };
      },
    });
  const backends = { pod: backendOf("pod"), vm: backendOf("vm") };
  let controllers = 0;

  return {
    clock,
    startedAt,
    prng,
    network,
    gitea,
    stream,
    bucket,
    facade,
    backends,
    jobs,
    executors,
    history,
    note,
    startController: (keys) => {
      const name = `controller-${++controllers}`;
      note(`${name} leads`);
      return startSimController({
        name,
        clock,
        prng: prng.fork(name),
        note,
        gitea,
        stream,
        bucket,
        facade,
        backends: [
          { backend: backends.pod, capacity: capacity.pod, timeoutMs: backendTimeoutMs },
          { backend: backends.vm, capacity: capacity.vm, timeoutMs: backendTimeoutMs },
        ],
        keyRing: parseKeyRing(keys === "right" ? rightKey : wrongKey),
        keyIds: [keys],
        times: simTimes,
      });
    },
  };
}

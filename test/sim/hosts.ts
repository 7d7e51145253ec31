import type { ExecutorRequest } from "../../controller/backends/backend.ts";
import type { Facts, JobFacts } from "./facts.ts";
import type { History } from "./history.ts";
import type { Moments } from "./moments.ts";
import type { Prng } from "./prng.ts";
import type { SimClock } from "./sim-clock.ts";
import { runSimExecutor } from "./sim-executor.ts";
import type { SimFacade } from "./sim-facade.ts";
import { createSimLogger } from "./sim-log.ts";
import { createSimProcess, type SimProcess } from "./sim-process.ts";

/** One executor's machine, seen from inside. */
export type Host = {
  readonly name: string;
  readonly process: SimProcess;
  readonly request: ExecutorRequest;
  /** Of the program that runs first. */
  readonly instance: string;
  /** What is in its environment is given to the program a second time. */
  again(): void;
};

/** Where executors run. */
export type Hosts = {
  /** Begins what runs in an executor; returns how to end it at once. `over`: it has ended by itself. */
  boot(name: string, request: ExecutorRequest, over: (how: string) => void): () => void;
  /** In the order in which they began. */
  readonly all: readonly Host[];
};

export type HostsOptions = {
  readonly clock: SimClock;
  readonly prng: Prng;
  readonly history: History;
  readonly facade: SimFacade;
  readonly facts: Facts;
  readonly moments: Moments;
  /** An instance has the answer to its claim. */
  readonly onClaimed: (job: JobFacts, instance: string, ended: boolean) => void;
  readonly onRun: (job: JobFacts) => void;
  /** The simulation itself has failed. */
  readonly onBroken: (error: unknown) => void;
};

export function createHosts(options: HostsOptions): Hosts {
  const { clock, prng, history, facade, facts, moments, onClaimed, onBroken } = options;
  const all: Host[] = [];

  const run = (process: SimProcess, request: ExecutorRequest, job: JobFacts, instance: string) =>
    runSimExecutor({
      process,
      facade,
      request,
      job: job.work,
      instance,
      identityMs: prng.between(200, 3_000),
      preparesMs: prng.between(100, 3_000),
      exitMs: prng.between(0, 8_000),
      log: createSimLogger(process.name, history),
      onClaimed: (ended) => {
        history.note(`${process.name} has claimed`);
        onClaimed(job, instance, ended);
        moments.reached("claimed", job.number);
      },
      onRun: () => {
        history.note(`${process.name} runs the job`);
        job.runs.push(clock.now());
        options.onRun(job);
        moments.reached("ran", job.number);
      },
      onCancelled: () => {
        history.note(`${process.name} hears that the job is to end`);
        job.windsUpAt ??= clock.now();
      },
      onDelivered: (result) => {
        history.note(`${process.name} is told that ${result} counts`);
        job.delivered ??= { result, at: clock.now() };
        moments.reached("delivered", job.number);
      },
    });

  const boot: Hosts["boot"] = (name, request, over) => {
    const { taskId } = request.metadata.assignment;
    const job = facts.ofTask(taskId);
    if (job === undefined) throw new Error(`${name} runs no job of the plan`);
    const process = createSimProcess(name, clock);
    history.note(`${name} boots`);
    moments.reached("booted", job.number);
    const instance = prng.hex(32);
    const ends = async () => {
      const how = await run(process, request, job, instance);
      history.note(`${name} ends: ${how}`);
      over(how);
    };
    // A bug of the simulation's own is no end of an executor.
    ends().catch((error: unknown) => onBroken(error));
    const again = () => {
      // Not the program that the machine waits for.
      run(process, request, job, prng.hex(32))
        .then((how) => history.note(`${name}, once more, ends: ${how}`))
        .catch((error: unknown) => onBroken(error));
    };
    all.push({ name, process, request, instance, again });
    return () => {
      process.kill();
    };
  };
  return { boot, all };
}

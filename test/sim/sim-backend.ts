import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import {
  executorAnnotations,
  executorLabels,
  executorName,
  parseExecutorMetadata,
  terminalLabel,
  type Texts,
} from "../../controller/assignment/executor-metadata.ts";
import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import {
  type Backend,
  BackendError,
  type Executor,
  type ExecutorRequest,
  type ExecutorState,
} from "../../controller/backends/backend.ts";
import type { Prng } from "./prng.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { scale } from "./scale.ts";

type Machine = {
  readonly name: string;
  labels: Texts;
  readonly annotations: Texts;
  readonly request: ExecutorRequest;
  readonly createdAt: number;
  state: ExecutorState;
  /** Ends what runs in it. */
  stop: () => void;
};

export type SimBackend = {
  backendFor(process: SimProcess): Backend;
  /** What the cluster has, whatever it says. */
  readonly machines: ReadonlyMap<string, Machine>;
  /** It ends by itself, or somebody ends it. */
  end(name: string, cause: FailureReason): void;
  /** Gone without a trace, as after `kubectl delete --force`. */
  vanish(name: string): void;
  /** How it misbehaves from now on. */
  manners: Manners;
};

export type Manners = {
  /** Lists are this old. */
  readonly staleMs: number;
  /** A create fails for this reason. */
  readonly refuses?: { readonly kind: "retryable" | "terminal"; readonly reason: FailureReason };
  /** The chance of a create that is carried out this much later, while its caller hears of a failure. */
  readonly lateCreate: number;
  readonly lateMs: number;
  /** A deleted machine lives on for this long. */
  readonly lingerMs: number;
  /** The chance that an executor ends before its program has begun. */
  readonly diesAtStart: number;
  /** From created to running. */
  readonly startMs: number;
};

export const goodManners: Manners = {
  staleMs: 0,
  lateCreate: 0,
  lateMs: 0,
  lingerMs: 0,
  diesAtStart: 0,
  startMs: 500,
};

export type SimBackendOptions = {
  readonly kind: BackendKind;
  readonly owner: string;
  readonly trustDomain: string;
  readonly clock: SimClock;
  readonly network: SimNetwork;
  readonly prng: Prng;
  readonly note: (text: string) => void;
  /** Begins what runs in an executor; returns how to end it at once. `over`: it has ended by itself. */
  readonly boot: (name: string, request: ExecutorRequest, over: (reason: string) => void) => () => void;
};

const requestMs = 10_000 / scale;

/** A cluster that answers late, from an old view, and does what it was asked after it has said that it could not. */
export function createSimBackend(options: SimBackendOptions): SimBackend {
  const { kind, owner, trustDomain, clock, network, prng, note, boot } = options;
  const machines = new Map<string, Machine>();
  const listeners = new Set<() => void>();
  const views: { readonly at: number; readonly executors: readonly Executor[] }[] = [];
  let manners = goodManners;

  const view = (): readonly Executor[] =>
    [...machines.values()].map(({ name, labels, annotations, createdAt, state }) => ({
      name,
      metadata: parseExecutorMetadata(trustDomain, labels, annotations),
      createdAt,
      state,
    }));
  const changed = () => {
    views.push({ at: clock.now(), executors: view() });
    if (views.length > 200) views.shift();
    // A watch is as old as a list.
    clock.after(manners.staleMs, () => {
      for (const listener of listeners) listener();
    });
  };
  const seen = (): readonly Executor[] => {
    const asOf = clock.now() - manners.staleMs;
    return views.findLast(({ at }) => at <= asOf)?.executors ?? [];
  };

  const ended = (machine: Machine, reason: string, cause?: FailureReason) => {
    if (machine.state.phase === "ended") return;
    machine.stop();
    machine.state = { phase: "ended", reason, ...(cause === undefined ? {} : { cause }) };
    changed();
  };

  const make = (name: string, request: ExecutorRequest): Machine => {
    const machine: Machine = {
      name,
      labels: executorLabels(request.metadata),
      annotations: executorAnnotations(request.metadata),
      request,
      createdAt: clock.now(),
      state: { phase: "starting" },
      stop: () => undefined,
    };
    machines.set(name, machine);
    changed();
    const dies = prng.chance(manners.diesAtStart);
    clock.after(manners.startMs, () => {
      if (machine.state.phase === "ended" || machines.get(name) !== machine) return;
      if (dies) return ended(machine, "exit code 1 at once", "start_failed");
      machine.state = { phase: "running" };
      changed();
      machine.stop = boot(name, request, (reason) => {
        ended(machine, reason);
      });
    });
    clock.after(request.deadlineAt - clock.now(), () => {
      if (machines.get(name) === machine) ended(machine, "its deadline has passed", "deadline");
    });
    return machine;
  };

  const executorOf = ({ name, labels, annotations, createdAt, state }: Machine): Executor => ({
    name,
    metadata: parseExecutorMetadata(trustDomain, labels, annotations),
    createdAt,
    state,
  });

  const create = (request: ExecutorRequest): Executor => {
    const { metadata } = request;
    const name = executorName(metadata.assignment, metadata.attempt);
    if (metadata.owner !== owner || metadata.assignment.backend !== kind)
      throw new BackendError("terminal", `${name} is for another controller or backend`);
    const { refuses } = manners;
    if (refuses !== undefined) throw new BackendError(refuses.kind, "refused", { reason: refuses.reason });
    const there = machines.get(name);
    if (there?.state.phase === "ended") throw new BackendError("retryable", `${name} has ended`);
    if (there !== undefined) return executorOf(there);
    if (prng.chance(manners.lateCreate)) {
      note(`create of ${name} comes ${manners.lateMs} ms late`);
      clock.after(manners.lateMs, () => {
        if (!machines.has(name)) make(name, request);
      });
      throw new BackendError("retryable", "the API server did not answer in time");
    }
    return executorOf(make(name, request));
  };

  const remove = (name: string) => {
    const machine = machines.get(name);
    if (machine === undefined) return;
    clock.after(manners.lingerMs, () => {
      if (machines.get(name) !== machine) return;
      machine.stop();
      machines.delete(name);
      changed();
    });
  };

  const backendFor = (process: SimProcess): Backend => {
    const lost = (why: string) => new BackendError("retryable", why);
    const ask = <T>(what: string, effect: () => T, signal: AbortSignal, once = false) =>
      network.call(
        { from: process, to: "backend", what: `${kind} ${what}`, timeoutMs: requestMs, lost, once, effect },
        signal,
      );
    return {
      kind,
      list: (signal) => ask("list", () => ({ executors: seen(), invalid: [] }), signal),
      create: (request, signal) => ask("create", () => create(request), signal, true),
      bindIdentity: (_executor, signal) => ask("bind", () => ({ bound: true }) as const, signal),
      markTerminal: (name, signal) =>
        ask(
          `mark ${name}`,
          () => {
            const machine = machines.get(name);
            if (machine === undefined || machine.labels[terminalLabel] === "true") return;
            machine.labels = { ...machine.labels, [terminalLabel]: "true" };
            changed();
          },
          signal,
        ),
      kill: (name, reason, signal) =>
        ask(
          `kill ${name}`,
          () => {
            const machine = machines.get(name);
            if (machine !== undefined) ended(machine, reason, "killed");
          },
          signal,
        ),
      delete: (name, signal) =>
        ask(
          `delete ${name}`,
          () => {
            remove(name);
          },
          signal,
        ),
      onChange: (listener) => {
        const heard = () => {
          process.deliver(listener);
        };
        listeners.add(heard);
        return () => listeners.delete(heard);
      },
    };
  };

  return {
    backendFor,
    machines,
    end: (name, cause) => {
      const machine = machines.get(name);
      if (machine !== undefined) ended(machine, "ended by the scenario", cause);
    },
    vanish: (name) => {
      const machine = machines.get(name);
      if (machine === undefined) return;
      machine.stop();
      machines.delete(name);
      changed();
    },
    get manners() {
      return manners;
    },
    set manners(next) {
      manners = next;
    },
  };
}

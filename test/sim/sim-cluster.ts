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
  BackendError,
  type Executor,
  type ExecutorRequest,
  type ExecutorState,
} from "../../controller/backends/backend.ts";
import type { History } from "./history.ts";
import type { Observe } from "./observed.ts";
import type { Prng } from "./prng.ts";
import type { SimClock } from "./sim-clock.ts";

export type Machine = {
  readonly name: string;
  labels: Texts;
  readonly annotations: Texts;
  readonly request: ExecutorRequest;
  readonly createdAt: number;
  /** It came after its creator had heard of a failure: nobody could count it before. */
  readonly late: boolean;
  /** Since when it is to be gone. */
  deletedAt?: number;
  state: ExecutorState;
  /** Ends what runs in it. */
  stop: () => void;
};

/** How a cluster misbehaves. */
export type Manners = {
  /** Lists and watches are this old. */
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
  startMs: 5_000,
};

/** What a backend has, whatever it says. */
export type SimCluster = {
  readonly kind: BackendKind;
  readonly machines: ReadonlyMap<string, Machine>;
  /** Creates that will still come. */
  readonly pending: number;
  manners: Manners;
  /** What it lists now, which may be old. */
  seen(): readonly Executor[];
  create(request: ExecutorRequest): Executor;
  markTerminal(name: string): void;
  /** It ends: by itself, or because somebody ends it. */
  end(name: string, reason: string, cause?: FailureReason): void;
  remove(name: string): void;
  /** Gone without a trace, as after `kubectl delete --force`. */
  vanish(name: string): void;
  /** Gone from every list, but what runs in it runs on: its node cannot be reached. */
  lose(name: string): void;
  onChange(listener: () => void): () => void;
};

export type SimClusterOptions = {
  readonly kind: BackendKind;
  readonly owner: string;
  readonly trustDomain: string;
  readonly clock: SimClock;
  readonly prng: Prng;
  readonly history: History;
  readonly observe: Observe;
  /** Begins what runs in an executor; returns how to end it at once. `over`: it has ended by itself. */
  readonly boot: (name: string, request: ExecutorRequest, over: (reason: string) => void) => () => void;
};

/** Views older than this are asked of nobody. */
const viewsKept = 300;

/** A cluster that answers from an old view, and does what it was asked after it has said that it could not. */
export function createSimCluster(options: SimClusterOptions): SimCluster {
  const { kind, owner, trustDomain, clock, prng, history, observe, boot } = options;
  const machines = new Map<string, Machine>();
  const made = new Set<string>();
  const listeners = new Set<() => void>();
  const views: { readonly at: number; readonly executors: readonly Executor[] }[] = [];
  let manners = goodManners;
  let pending = 0;

  const executorOf = ({ name, labels, annotations, createdAt, state }: Machine): Executor => ({
    name,
    metadata: parseExecutorMetadata(trustDomain, labels, annotations),
    createdAt,
    state,
  });
  const changed = () => {
    views.push({ at: clock.now(), executors: [...machines.values()].map(executorOf) });
    if (views.length > viewsKept) views.shift();
    // A watch is as old as a list.
    clock.after(manners.staleMs, () => {
      for (const listener of listeners) listener();
    });
  };

  const end = (machine: Machine, reason: string, cause?: FailureReason) => {
    if (machine.state.phase === "ended") return;
    machine.stop();
    machine.state = { phase: "ended", reason, ...(cause === undefined ? {} : { cause }) };
    changed();
  };
  const endByName = (name: string, reason: string, cause?: FailureReason) => {
    const machine = machines.get(name);
    if (machine !== undefined) end(machine, reason, cause);
  };
  const vanish = (name: string) => {
    machines.get(name)?.stop();
    if (machines.delete(name)) changed();
  };

  const make = (name: string, request: ExecutorRequest, late: boolean): Machine => {
    const machine: Machine = {
      name,
      labels: executorLabels(request.metadata),
      annotations: executorAnnotations(request.metadata),
      request,
      createdAt: clock.now(),
      late,
      state: { phase: "starting" },
      stop: () => undefined,
    };
    machines.set(name, machine);
    made.add(name);
    observe({ kind: "made", executor: name });
    changed();
    const dies = prng.chance(manners.diesAtStart);
    const { id: assignmentId } = request.metadata.assignment;
    clock.after(manners.startMs, () => {
      if (machine.state.phase === "ended" || machines.get(name) !== machine) return;
      if (dies) {
        observe({ kind: "start-failed", assignmentId, reason: "start_failed" });
        return end(machine, "exit code 1 at once", "start_failed");
      }
      machine.state = { phase: "running" };
      changed();
      machine.stop = boot(name, request, (reason) => {
        end(machine, reason);
      });
    });
    clock.after(request.deadlineAt - clock.now(), () => {
      if (machines.get(name) === machine) end(machine, "its deadline has passed", "deadline");
    });
    return machine;
  };

  const comeLate = (name: string, request: ExecutorRequest) => {
    history.note(`create of ${name} comes ${manners.lateMs} ms late`);
    pending++;
    clock.after(manners.lateMs, () => {
      pending--;
      // Two with one name, the first of them lost on a node that nobody reaches, is more than one fault.
      if (!made.has(name)) make(name, request, true);
    });
  };

  const create = (request: ExecutorRequest): Executor => {
    const { assignment, attempt, owner: creator } = request.metadata;
    const name = executorName(assignment, attempt);
    observe({ kind: "create", assignment, attempt });
    if (creator !== owner || assignment.backend !== kind)
      throw new BackendError("terminal", `${name} is for another controller or backend`);
    const { refuses } = manners;
    if (refuses !== undefined) {
      const { reason } = refuses;
      observe({ kind: "start-failed", assignmentId: assignment.id, reason });
      throw new BackendError(refuses.kind, "refused", { reason });
    }
    const there = machines.get(name);
    if (there?.state.phase === "ended") throw new BackendError("retryable", `${name} has ended`);
    if (there !== undefined) return executorOf(there);
    if (!prng.chance(manners.lateCreate)) return executorOf(make(name, request, false));
    comeLate(name, request);
    throw new BackendError("retryable", "the API server did not answer in time");
  };

  return {
    kind,
    machines,
    get pending() {
      return pending;
    },
    get manners() {
      return manners;
    },
    set manners(next) {
      manners = next;
    },
    seen: () => views.findLast(({ at }) => at <= clock.now() - manners.staleMs)?.executors ?? [],
    create,
    markTerminal: (name) => {
      const machine = machines.get(name);
      if (machine === undefined || machine.labels[terminalLabel] === "true") return;
      machine.labels = { ...machine.labels, [terminalLabel]: "true" };
      changed();
    },
    end: endByName,
    remove: (name) => {
      const machine = machines.get(name);
      if (machine === undefined) return;
      machine.deletedAt ??= clock.now();
      clock.after(manners.lingerMs, () => {
        if (machines.get(name) === machine) vanish(name);
      });
    },
    vanish,
    lose: (name) => {
      if (machines.delete(name)) changed();
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

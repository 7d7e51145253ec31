import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { InvalidAssignmentError } from "../../controller/assignment/errors.ts";
import type { Failure } from "../../controller/assignment/failure.ts";
import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import {
  backendLabel,
  executorAnnotations,
  type ExecutorMetadata,
  executorLabels,
  executorName,
  ownerLabel,
  parseExecutorMetadata,
  terminalLabel,
} from "../../controller/assignment/executor-metadata.ts";
import {
  type Backend,
  BackendError,
  type Executor,
  type ExecutorRequest,
  type ExecutorState,
  type InvalidExecutor,
} from "../../controller/backends/backend.ts";
import type { Clock } from "../../controller/platform/clock.ts";
import { anExecutorMetadata, testStart, testTrustDomain } from "../support/builders.ts";

type Stored = {
  labels: Record<string, string>;
  readonly annotations: Record<string, string>;
  readonly environment: ExecutorRequest["environment"];
  readonly createdAt: number;
  readonly deadlineAt: number;
  state: ExecutorState;
};

/** What is there, whoever looks: pass it to a second backend and that one is the first after a restart. */
export type FakeBackendWorld = {
  readonly stored: Map<string, Stored>;
  readonly listeners: Set<(name?: string) => void>;
};

export function createFakeBackendWorld(): FakeBackendWorld {
  return { stored: new Map(), listeners: new Set() };
}

export type BackendMethod = Exclude<keyof Backend, "kind" | "onChange">;

type BackendCall = {
  readonly method: BackendMethod;
  readonly name?: string;
  readonly reason?: string;
  readonly spiffeId?: string;
  readonly mayBeUnderWay?: true;
};

export type FakeBackend = Backend & {
  readonly world: FakeBackendWorld;
  /** All calls but onChange, in order, also those that failed: `reason` of kill, `spiffeId` of bindIdentity. */
  readonly calls: readonly BackendCall[];
  /** The names that a method was called with, in order. */
  called(method: BackendMethod): readonly (string | undefined)[];
  /** The next call of the method rejects; with `done` after it took effect, as when the answer is lost. Queues. */
  failNext(method: BackendMethod, error: Error, options?: { readonly done?: boolean }): void;
  /** Calls of the method wait before they do anything until the returned function is called. */
  hold(method: BackendMethod): () => void;
  /** Whether create answers with an executor that runs already (the default), or with one that is starting. */
  startsAtOnce: boolean;
  /** Whether bindIdentity knows its target; false: it answers "not yet". */
  bindable: boolean;
  /** Moves an executor on, as it does by itself; listeners hear of it. */
  start(name: string): void;
  end(name: string, reason?: string, cause?: FailureReason): void;
  /** It does not run yet, for this reason. */
  wait(name: string, waiting: Failure): void;
  /** It disappears, as if somebody else had deleted it. */
  vanish(name: string): void;
  /** Somebody writes another executor's metadata on it. */
  relabel(name: string, metadata: ExecutorMetadata): void;
  /** Takes a label away, so that its metadata does not hold any more. */
  spoil(name: string): void;
  /** The environment that it was created with. */
  environmentOf(name: string): ExecutorRequest["environment"] | undefined;
  /** By when it was to have ended. */
  deadlineOf(name: string): number | undefined;
};

export type FakeBackendOptions = {
  readonly kind?: BackendKind;
  /** Default: the owner of the builders' metadata. */
  readonly owner?: string;
  readonly trustDomain?: string;
  readonly clock?: Pick<Clock, "now">;
  readonly world?: FakeBackendWorld;
};

/** A backend in memory that keeps the contract; executors run until the test says otherwise. */
export function createFakeBackend(options: FakeBackendOptions = {}): FakeBackend {
  const {
    kind = "pod",
    owner = anExecutorMetadata().owner,
    trustDomain = testTrustDomain,
    clock = { now: () => testStart },
    world = createFakeBackendWorld(),
  } = options;
  const { stored, listeners } = world;
  const calls: BackendCall[] = [];
  const failures: { method: BackendMethod; error: Error; done: boolean }[] = [];
  const holds = new Map<BackendMethod, Promise<void>>();

  const changed = (name: string) => {
    for (const listener of listeners) listener(name);
  };
  const moved = (name: string, state: ExecutorState) => {
    const found = stored.get(name);
    if (found === undefined) throw new Error(`the fake backend has no executor ${name}`);
    if (found.state.phase === "ended") return;
    found.state = state;
    changed(name);
  };
  const isMine = (found: Stored) => found.labels[ownerLabel] === owner && found.labels[backendLabel] === kind;
  /** Ours under that name; undefined if it is gone. */
  const mine = (name: string): Stored | undefined => {
    const found = stored.get(name);
    if (found !== undefined && !isMine(found))
      throw new BackendError("terminal", `${name} is somebody else's`);
    return found;
  };
  const seen = (name: string, found: Stored): Executor => {
    const { labels, annotations, createdAt, deadlineAt } = found;
    if (clock.now() >= deadlineAt && found.state.phase !== "ended")
      found.state = { phase: "ended", reason: "its time was over", cause: "deadline" };
    return {
      name,
      metadata: parseExecutorMetadata(trustDomain, labels, annotations),
      state: found.state,
      createdAt,
    };
  };

  const call = async <T>(entry: BackendCall, signal: AbortSignal, effect: () => T): Promise<T> => {
    const { method } = entry;
    calls.push(entry);
    signal.throwIfAborted();
    await holds.get(method);
    signal.throwIfAborted();
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined && !failure.done) throw failure.error;
    const result = effect();
    if (failure !== undefined) throw failure.error;
    return result;
  };

  const create = (name: string, { metadata, environment, deadlineAt }: ExecutorRequest): Executor => {
    if (metadata.owner !== owner || metadata.assignment.backend !== kind)
      throw new BackendError("terminal", `${name} is for another controller or backend`);
    const wanted: Stored = {
      labels: { ...executorLabels(metadata) },
      annotations: { ...executorAnnotations(metadata) },
      environment,
      createdAt: clock.now(),
      deadlineAt,
      state: { phase: fake.startsAtOnce ? "running" : "starting" },
    };
    const there = mine(name);
    if (there === undefined) {
      const executor = seen(name, wanted);
      stored.set(name, wanted);
      changed(name);
      return executor;
    }
    const { [terminalLabel]: _, ...labels } = there.labels;
    if (JSON.stringify([labels, there.annotations]) !== JSON.stringify([wanted.labels, wanted.annotations]))
      throw new BackendError("terminal", `${name} is there already, for something else`);
    const found = seen(name, there);
    if (found.state.phase === "ended") throw new BackendError("retryable", `${name} has ended`);
    return found;
  };

  const list = () => {
    const executors: Executor[] = [];
    const invalid: InvalidExecutor[] = [];
    for (const [name, found] of stored) {
      if (!isMine(found)) continue;
      try {
        executors.push(seen(name, found));
      } catch (error) {
        if (!(error instanceof InvalidAssignmentError)) throw error;
        invalid.push({ name, reason: error.message, createdAt: found.createdAt });
      }
    }
    return { executors, invalid };
  };

  const fake: FakeBackend = {
    kind,
    world,
    calls,
    startsAtOnce: true,
    bindable: true,
    list: (signal) => call({ method: "list" }, signal, list),
    create: (request, signal) => {
      const name = executorName(request.metadata.assignment, request.metadata.attempt);
      const { mayBeUnderWay } = request;
      const entry = { method: "create", name, ...(mayBeUnderWay ? { mayBeUnderWay } : {}) } as const;
      return call(entry, signal, () => create(name, request));
    },
    bindIdentity: ({ name, metadata }, signal) =>
      call({ method: "bindIdentity", name, spiffeId: metadata.assignment.spiffeId }, signal, () => {
        if (mine(name) === undefined) throw new BackendError("retryable", `${name} is gone`);
        return { bound: fake.bindable };
      }),
    markTerminal: (name, signal) =>
      call({ method: "markTerminal", name }, signal, () => {
        const found = mine(name);
        if (found !== undefined) found.labels = { ...found.labels, [terminalLabel]: "true" };
      }),
    kill: (name, reason, signal) =>
      call({ method: "kill", name, reason }, signal, () => {
        if (mine(name) !== undefined) moved(name, { phase: "ended", reason });
      }),
    delete: (name, signal) =>
      call({ method: "delete", name }, signal, () => {
        if (mine(name) === undefined) return;
        stored.delete(name);
        changed(name);
      }),
    onChange: (listener) => {
      const own = (name?: string) => listener(name);
      listeners.add(own);
      return () => listeners.delete(own);
    },
    called: (method) => calls.filter((entry) => entry.method === method).map(({ name }) => name),
    failNext: (method, error, { done = false } = {}) => failures.push({ method, error, done }),
    hold: (method) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holds.set(method, promise);
      return () => {
        if (holds.get(method) === promise) holds.delete(method);
        resolve();
      };
    },
    start: (name) => moved(name, { phase: "running" }),
    end: (name, reason = "exited with code 0", cause) =>
      moved(name, { phase: "ended", reason, ...(cause === undefined ? {} : { cause }) }),
    wait: (name, waiting) => moved(name, { phase: "starting", waiting }),
    vanish: (name) => {
      if (stored.delete(name)) changed(name);
    },
    relabel: (name, metadata) => {
      const found = stored.get(name);
      if (found === undefined) throw new Error(`the fake backend has no executor ${name}`);
      const texts = { labels: { ...executorLabels(metadata) }, annotations: executorAnnotations(metadata) };
      stored.set(name, { ...found, ...texts });
      changed(name);
    },
    spoil: (name) => {
      const found = stored.get(name);
      if (found === undefined) throw new Error(`the fake backend has no executor ${name}`);
      const { "ci.ddupan.top/nonce": _, ...labels } = found.labels;
      found.labels = labels;
      changed(name);
    },
    environmentOf: (name) => stored.get(name)?.environment,
    deadlineOf: (name) => stored.get(name)?.deadlineAt,
  };
  return fake;
}

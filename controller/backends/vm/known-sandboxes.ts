import { type ExecutorMetadata, executorName, type Texts } from "../../assignment/executor-metadata.ts";
import type { Failure } from "../../assignment/failure.ts";
import type { Sandbox } from "../../opensandbox/opensandbox-api.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import type { Backend, Executor, ExecutorState, InvalidExecutor } from "../backend.ts";
import { belongsTo, readSandbox, sameAttempt, type SandboxReading } from "./sandbox-executor.ts";
import { keptOf, type Twin } from "./twins.ts";
import { afterAnswer, type Answer, type Life } from "./vm-life.ts";
import type { VmTimes } from "./vm-options.ts";

/** A sandbox of ours, as it was last seen; also one that is gone, until it is deleted through the backend. */
export type KnownSandbox = {
  readonly id: string;
  /** Its executor's, or its own id if that cannot be read. */
  readonly name: string;
  readonly metadata: Texts;
  readonly reading: SandboxReading;
  readonly life: Life;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** When the server was last asked for just this one, by the steady clock. */
  readonly askedAt: number;
  /** When it was asked to be made, and when it has to end, by the steady clock: as they were told when it was first read. */
  readonly bornAt: number;
  readonly endsAt: number;
};

/** All that is known of our sandboxes, in memory only. */
export type KnownSandboxes = {
  /** Takes in what the server says of one. `asked`: this one was asked for, so that its word is no old one. */
  note(sandbox: Sandbox, asked: boolean): void;
  /** It was asked for by its id, and there is none. */
  noteMissing(id: string): void;
  /** We have added this metadata: no answer that lacks it is a later one. */
  noteAdded(id: string, metadata: Texts): void;
  /** We have ended it, and it is gone. `isDeleted`: by our word. */
  noteEnded(id: string, state: Extract<ExecutorState, { phase: "ended" }>, isDeleted: boolean): void;
  /** We want no more of it. `isDeleted`: by our word, so that whatever still shows it is old. */
  forget(id: string, isDeleted: boolean): void;
  /** It has been handed out as the executor of its name. */
  handOut(id: string): void;
  get(id: string): KnownSandbox | undefined;
  all(): readonly KnownSandbox[];
  /** Those of one executor, or the one of that id: the executor first, then what is too many. */
  of(name: string): readonly KnownSandbox[];
  /** Whether what a list says of a known one is to be asked for again before it is believed. */
  isDoubtful(sandbox: Sandbox): boolean;
  executorOf(known: KnownSandbox): Executor | undefined;
  listed(): Awaited<ReturnType<Backend["list"]>>;
  onChange: Backend["onChange"];
  /** Something else about the executor of that name has changed. */
  changed(name?: string): void;
};

export type KnownSandboxesOptions = {
  readonly owner: string;
  readonly trustDomain: string;
  /** What a running VM lacks. */
  readonly lack: (name: string) => Failure | undefined;
  readonly times: Pick<VmTimes, "createWindowMs" | "lagMs">;
  readonly clock: Pick<Clock, "now">;
  readonly steady: SteadyClock;
  readonly log: Logger;
};

export const killedForLabel = "ci.ddupan.top/killed-for";

/** A reconciler deletes them before long; a job whose VM is forgotten has vanished without a reason. */
const mostGone = 1_000;
const mostForgotten = 10_000;

export function createKnownSandboxes(options: KnownSandboxesOptions): KnownSandboxes {
  const { owner, trustDomain, lack, times, clock, steady, log } = options;
  const known = new Map<string, KnownSandbox>();
  const added = new Map<string, Texts>();
  const handedOut = new Set<string>();
  /** What they were when they were first read, by id. */
  const first = new Map<
    string,
    {
      readonly metadata: ExecutorMetadata;
      readonly times: Omit<SandboxReading, "executor">;
      readonly endsAt: number;
    }
  >();
  const forgotten = new Map<string, { readonly isDeleted: boolean }>();
  const listeners = new Set<(name?: string) => void>();

  const changed = (name?: string) => {
    for (const listener of listeners) listener(name);
  };
  const drop = (id: string) => {
    known.delete(id);
    added.delete(id);
    handedOut.delete(id);
    first.delete(id);
  };
  const put = (next: KnownSandbox) => {
    const before = known.get(next.id);
    known.set(next.id, next);
    if (next.life.isGone) forgetOldest();
    if (before === undefined || !looksTheSame(before, next)) changed(next.name);
  };
  const forgetOldest = () => {
    const gone = [...known.values()].filter(({ life }) => life.isGone);
    for (const { id } of gone.slice(0, Math.max(0, gone.length - mostGone))) drop(id);
  };

  /** What the time of day says now; that may be set later. */
  const steadyOf = (time: number) => steady() + time - clock.now();

  /** A sandbox is one executor's for its whole life: what says otherwise is somebody's hand. */
  const readingOf = (id: string, metadata: Texts): SandboxReading => {
    const reading = readSandbox(metadata, trustDomain);
    const { executor, ...said } = reading;
    const was = first.get(id);
    if (was === undefined) {
      // When something is to end that cannot be read is nothing to go by either.
      if (executor.kind === "invalid") return { executor };
      const endsAt = steadyOf(said.deadlineAt ?? Infinity);
      first.set(id, { metadata: executor.metadata, times: said, endsAt });
      return reading;
    }
    if (executor.kind === "valid" && sameAttempt(executor.metadata, was.metadata))
      return { ...was.times, executor };
    const name = executorName(was.metadata.assignment, was.metadata.attempt);
    const reason =
      executor.kind === "valid" ? `it says to be of ${executor.name}, and is another's` : executor.reason;
    return { ...was.times, executor: { kind: "invalid", name, reason } };
  };

  const lifeAfter = (
    before: Life | undefined,
    answer: Answer,
    { metadata, bornAt, endsAt }: Pick<KnownSandbox, "metadata" | "bornAt" | "endsAt">,
  ): Life => {
    const killedFor = metadata[killedForLabel];
    const now = steady();
    const around = {
      now,
      ageMs: now - bornAt,
      isPastDeadline: now >= endsAt,
      ...(killedFor === undefined ? {} : { killedFor }),
    };
    return afterAnswer(before, answer, around, times);
  };

  /** It is gone, but for an answer to a question for just this one. */
  const mayReturn = (id: string) =>
    known.get(id)?.life.mayReturn === true || forgotten.get(id)?.isDeleted === false;

  /** What would be known after that; undefined of one that is not ours, or that we know to be gone. */
  const taken = (sandbox: Sandbox, asked: boolean): KnownSandbox | undefined => {
    const { id, state, words, isAllocated } = sandbox;
    const before = known.get(id);
    const isGone = forgotten.has(id) || before?.life.isGone === true;
    if ((isGone && !(asked && mayReturn(id))) || !belongsTo(sandbox.metadata, owner)) return undefined;
    const metadata = { ...sandbox.metadata, ...added.get(id) };
    const reading = readingOf(id, metadata);
    const { executor, askedAt = sandbox.createdAt } = reading;
    const now = clock.now();
    const createdAt = before?.createdAt ?? Math.min(askedAt ?? now, now);
    const bornAt = before?.bornAt ?? steadyOf(createdAt);
    const endsAt = first.get(id)?.endsAt ?? Infinity;
    const seen = { metadata, reading, createdAt, bornAt, endsAt };
    return {
      ...seen,
      id,
      name: executor.name ?? before?.name ?? id,
      life: lifeAfter(before?.life, { kind: "there", state, words, isAllocated }, seen),
      askedAt: asked || before === undefined ? steady() : before.askedAt,
    };
  };

  const twin = ({ id, reading, life, createdAt }: KnownSandbox): Twin => ({
    id,
    isValid: reading.executor.kind === "valid",
    isGone: life.isGone,
    isStopping: life.isStopping,
    phase: life.state.phase,
    isHandedOut: handedOut.has(id),
    createdAt,
  });

  const keptFirst = (group: readonly KnownSandbox[]): readonly KnownSandbox[] => {
    if (group.length < 2) return group;
    const kept = keptOf(group.map((one) => ({ ...twin(one), one })))?.one;
    return kept === undefined ? group : [kept, ...group.filter((one) => one !== kept)];
  };

  const executorOf = ({ name, reading, life, createdAt }: KnownSandbox): Executor | undefined => {
    if (reading.executor.kind === "invalid") return undefined;
    const waiting = life.state.phase === "running" ? lack(name) : undefined;
    const state = waiting === undefined ? life.state : ({ phase: "running", waiting } as const);
    return { name, metadata: reading.executor.metadata, state, createdAt };
  };

  const listed = () => {
    const executors: Executor[] = [];
    const invalid: InvalidExecutor[] = [];
    for (const [name, group] of Map.groupBy(known.values(), (one) => one.name)) {
      const [kept] = keptFirst(group);
      const executor = kept && executorOf(kept);
      if (executor !== undefined) executors.push(executor);
      for (const { id, reading, life, createdAt } of group)
        // What is gone takes no slot, whatever it was.
        if (reading.executor.kind === "invalid" && !life.isGone)
          invalid.push({
            // Two of one name would be one too few.
            name: group.length === 1 ? name : id,
            reason: `sandbox ${id}: ${reading.executor.reason}`,
            createdAt,
          });
    }
    return { executors, invalid };
  };

  return {
    note: (sandbox, asked) => {
      const next = taken(sandbox, asked);
      if (next !== undefined) {
        forgotten.delete(sandbox.id);
        put(next);
        return;
      }
      const before = known.get(sandbox.id);
      if (before === undefined || before.life.isGone || belongsTo(sandbox.metadata, owner)) return;
      log.error(
        { executor: before.name, sandbox: sandbox.id },
        "executor has lost its owner's label, and is left alone from now on",
      );
      drop(sandbox.id);
      changed(before.name);
    },
    noteMissing: (id) => {
      const before = known.get(id);
      if (before === undefined || before.life.isGone) return;
      const life = lifeAfter(before.life, { kind: "missing" }, before);
      put({ ...before, life, askedAt: steady() });
    },
    noteAdded: (id, metadata) => {
      const before = known.get(id);
      if (before === undefined) return;
      added.set(id, { ...added.get(id), ...metadata });
      const all = { ...before.metadata, ...metadata };
      put({ ...before, metadata: all, reading: readingOf(id, all) });
    },
    noteEnded: (id, state, isDeleted) => {
      const before = known.get(id);
      if (before === undefined) return;
      const { hasRun } = before.life;
      const life: Life = { hasRun, state, isGone: true, isStopping: false };
      put({ ...before, life: isDeleted ? life : { ...life, mayReturn: true } });
    },
    forget: (id, isDeleted) => {
      const name = known.get(id)?.name;
      drop(id);
      forgotten.set(id, { isDeleted: isDeleted || forgotten.get(id)?.isDeleted === true });
      const [oldest] = forgotten.keys();
      if (forgotten.size > mostForgotten && oldest !== undefined) forgotten.delete(oldest);
      if (name !== undefined) changed(name);
    },
    handOut: (id) => {
      if (known.has(id)) handedOut.add(id);
    },
    get: (id) => known.get(id),
    all: () => [...known.values()],
    of: (name) => {
      const one = known.get(name);
      return one === undefined ? keptFirst([...known.values()].filter((each) => each.name === name)) : [one];
    },
    isDoubtful: (sandbox) => {
      if (mayReturn(sandbox.id)) return true;
      const before = known.get(sandbox.id);
      if (before === undefined || before.life.isGone) return false;
      // What was asked for by its id is not taken back by a list.
      if (before.life.doubt !== undefined) return true;
      const next = taken(sandbox, false);
      // It may be somebody else's now.
      return next === undefined || next.life.doubt !== undefined;
    },
    executorOf,
    listed,
    onChange: (listener) => {
      const own = (name?: string) => listener(name);
      listeners.add(own);
      return () => listeners.delete(own);
    },
    changed,
  };
}

/** As far as whoever lists executors can tell. */
function looksTheSame(a: KnownSandbox, b: KnownSandbox): boolean {
  const seen = ({ name, reading, life }: KnownSandbox) => [
    name,
    reading.executor.kind,
    life.state,
    terminal(reading),
  ];
  return JSON.stringify(seen(a)) === JSON.stringify(seen(b));
}

function terminal({ executor }: SandboxReading): boolean {
  return executor.kind === "valid" && executor.metadata.terminal;
}

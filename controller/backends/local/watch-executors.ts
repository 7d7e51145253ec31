import type { Clock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import type { Logger } from "../../platform/logger.ts";
import { isAbortOf } from "../../platform/signal.ts";
import type { Wakeup } from "../../platform/wakeup.ts";
import type { Backend } from "../backend.ts";

/** /proc tells nobody when a process that is not our child ends: it is looked at. */
const pollMs = 500;

export type Watched = {
  readonly list: Backend["list"];
  /** Does what is due for one executor: ends what its process left, kills it past its deadline. */
  readonly tend: (name: string, signal: AbortSignal) => Promise<void>;
  readonly changed: (name: string) => void;
  readonly clock: Clock;
  readonly log: Logger;
  /** A reason to look at once. */
  readonly wakeup: Wakeup;
};

/** Looks after the executors until the signal is aborted; what it began is over when it resolves. The executors go on. */
export async function watchExecutors(watched: Watched, signal: AbortSignal): Promise<void> {
  const { clock, wakeup } = watched;
  const trouble = createTrouble(watched.log);
  // One that takes long to end keeps nobody else waiting.
  const busy = new Map<string, Promise<void>>();
  const tend = async (name: string) => {
    try {
      await watched.tend(name, signal);
      trouble.over(name);
    } catch (error) {
      if (!isAbortOf(signal, error)) trouble.tell(name, error);
    } finally {
      busy.delete(name);
    }
  };

  let known: ReadonlyMap<string, string> | undefined;
  while (!signal.aborted) {
    const woken = new AbortController();
    const pause = AbortSignal.any([signal, woken.signal]);
    const next = Promise.race([clock.sleep(pollMs, pause), wakeup.next(pause)]);
    next.catch(() => undefined);
    try {
      const states = statesOf(await watched.list(signal));
      for (const name of known === undefined ? [] : changedNames(known, states)) watched.changed(name);
      known = states;
      for (const name of states.keys()) if (!busy.has(name)) busy.set(name, tend(name));
      trouble.keep(states);
    } catch (error) {
      if (!isAbortOf(signal, error)) trouble.tell("", error);
    }
    await next.catch(() => undefined);
    woken.abort();
  }
  await Promise.all(busy.values());
}

/** Each executor with a text that changes when its state does. */
function statesOf({ executors, invalid }: Awaited<ReturnType<Backend["list"]>>): ReadonlyMap<string, string> {
  return new Map([
    ...executors.map(({ name, state }) => [name, JSON.stringify(state)] as const),
    ...invalid.map(({ name, reason }) => [name, reason] as const),
  ]);
}

function changedNames(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): readonly string[] {
  return [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name));
}

/** Says the same trouble once, not twice a second. */
function createTrouble(log: Logger) {
  const told = new Map<string, string>();
  return {
    tell: (executor: string, error: unknown) => {
      const text = describeError(error);
      if (told.get(executor) === text) return;
      told.set(executor, text);
      log.warn({ executor, error: text }, "looking after local executors failed");
    },
    over: (executor: string) => told.delete(executor),
    /** Forgets the executors that are gone, and that the look itself failed. */
    keep: (executors: ReadonlyMap<string, unknown>) => {
      for (const name of told.keys()) if (!executors.has(name)) told.delete(name);
    },
  };
}

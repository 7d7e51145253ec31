import { ownerLabel } from "../../assignment/executor-metadata.ts";
import type { WatchedList } from "../../kubernetes/watched-list.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import { abortable } from "../../platform/signal.ts";
import { createWakeup, listenForAny } from "../../platform/wakeup.ts";
import type { Backend, Executor, ExecutorState, InvalidExecutor } from "../backend.ts";
import type { ApiCollection } from "../../kubernetes/api-collection.ts";
import { createGonePods } from "./gone-pods.ts";
import { createKnownEvents } from "./known-events.ts";
import { createObjectView } from "../../kubernetes/object-view.ts";
import type { EntryKeeper } from "../../static-entries/entry-keeper.ts";
import { makeSure, tellInTime } from "./look-after-pods.ts";
import { parsePod, type PodDocument } from "./pod-document.ts";
import { belongsTo, executorOfPod } from "./pod-executor.ts";
import { createPodStates } from "./pod-states.ts";
import { readGonePod } from "./pod-status.ts";

/** Our Pods as far as they are known here: by the watch, by what calls answer, and by memory of what is gone. */
export type PodView = {
  /** Tells of what time alone changes, and makes sure of what the watch leaves open, until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;
  /** The contract's list. Reads the API where the watch has nothing to say, and rejects as ApiCollection then. */
  list: Backend["list"];
  /** Pods that are there and have our owner's label. */
  all(): readonly PodDocument[];
  get(name: string): PodDocument | undefined;
  stateOf(pod: PodDocument): ExecutorState;
  /** The state of a Pod that is gone and was not deleted by us; undefined if there is none. */
  goneState(name: string): ExecutorState | undefined;
  /** Takes in what a call answered. */
  note(object: unknown): PodDocument;
  /** An uncached read, taken in; also one that is not ours is handed back. */
  fetch(name: string, signal: AbortSignal): Promise<PodDocument | undefined>;
  /** We delete it: its end is nothing to be told of. */
  discard(name: string): void;
  /**
   * Waits until `look` finds something about a Pod; undefined if that takes longer than `ms`. What the watch does
   * not tell is asked for now and then.
   */
  until<T>(name: string, look: () => T | undefined, ms: number, signal: AbortSignal): Promise<T | undefined>;
  onChange: Backend["onChange"];
  /** What is known of the registration entry of that name is another now. */
  entryMoved(name: string): void;
  /** Milliseconds since the watch was known to be current; undefined: never yet. */
  ageMs(): number | undefined;
};

export type PodViewOptions = {
  readonly pods: Pick<WatchedList, "documents" | "onChange" | "ageMs">;
  readonly events: Pick<WatchedList, "onChange">;
  /** Of the registration entries. */
  readonly identities: Pick<EntryKeeper, "lack" | "lacksIn">;
  readonly collection: ApiCollection;
  readonly owner: string;
  readonly trustDomain: string;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly log: Logger;
};

/** A watch that works hears something each minute, be it a bookmark. */
const staleMs = 120_000;
/** For so long the watch may be behind a call. */
const behindMs = 5_000;
/** For so long whoever waits trusts in the watch. */
const recheckMs = 5_000;

export function createPodView(options: PodViewOptions): PodView {
  const { collection, identities, owner, clock, steady, log } = options;
  const listeners = new Set<(name?: string) => void>();
  const moved = createWakeup();
  const changed = (name?: string) => {
    moved.wake();
    for (const listener of listeners) listener(name);
  };
  const suspected = createWakeup();
  const gonePods = createGonePods();
  const discarded = new Set<string>();
  const events = createKnownEvents(options.events, {
    isOurs: (name) => name.startsWith("gitea-task-"),
    onChange: changed,
  });
  // Patience is no matter of the time of day.
  const patient: Clock = { now: steady, sleep: (ms, signal) => clock.sleep(ms, signal) };
  const states = createPodStates(events, patient);
  const view = createObjectView({
    list: options.pods,
    parse: parsePod,
    onGone: (last) => {
      states.forget(last);
      if (discarded.delete(last.uid)) return;
      gonePods.add(last);
      suspected.wake();
    },
    onChange: changed,
    steady,
  });

  /** A Pod that runs may still lack its identity. */
  const stateOf = (pod: PodDocument): ExecutorState => {
    const { state } = states.lookAt(pod);
    const waiting = state.phase === "running" ? identities.lack(pod.name) : undefined;
    return waiting === undefined ? state : { phase: "running", waiting };
  };

  const goneState = (name: string): ExecutorState | undefined => {
    const gone = view.get(name) === undefined ? gonePods.get(name) : undefined;
    if (gone === undefined) return undefined;
    return gone.surely ? readGonePod(gone.last, events.of(gone.last.uid)) : states.lookAt(gone.last).state;
  };

  /** What an uncached read says of a Pod that the watch has lost. */
  const settle = (name: string, found: PodDocument | undefined, ours: boolean) => {
    const gone = gonePods.get(name);
    if (gone === undefined || gone.surely) return;
    if (gone.last.uid !== found?.uid) {
      states.forget(gone.last);
      gonePods.isSure(name);
    } else if (!ours) {
      log.error({ executor: name }, "executor has lost its owner's label, and is left alone from now on");
      gonePods.forget(name);
    } else if (view.get(name)?.uid === found.uid) gonePods.forget(name);
    changed(name);
  };

  const fetch = async (name: string, signal: AbortSignal): Promise<PodDocument | undefined> => {
    const before = view.get(name);
    const answer = await collection.get(name, signal);
    const found = answer === undefined ? undefined : parsePod(answer);
    const ours = found?.labels[ownerLabel] === owner;
    if (before !== undefined && before.uid !== found?.uid) view.noteGone(before);
    else if (before !== undefined && !ours) view.noteAbsent(before);
    if (found !== undefined && ours) view.note(found);
    settle(name, found, ours);
    return found;
  };

  /** The watch does not say enough: it has just begun, or hears nothing any more. */
  const readAll = async (signal: AbortSignal) => {
    const before = view.all();
    const found = await collection.list(`${ownerLabel}=${owner}`, signal);
    const pods = found.map(parsePod);
    const uids = new Set(pods.map(({ uid }) => uid));
    for (const pod of pods) view.note(pod);
    for (const pod of before) if (!uids.has(pod.uid)) view.noteAbsent(pod);
  };

  const list: Backend["list"] = async (signal) => {
    signal.throwIfAborted();
    if ((options.pods.ageMs() ?? Infinity) > staleMs) await readAll(signal);
    const executors: Executor[] = [];
    const invalid: InvalidExecutor[] = [];
    const seen = { trustDomain: options.trustDomain, seenAt: clock.now() };
    for (const pod of view.all()) {
      if (!belongsTo(pod, owner)) continue;
      const read = executorOfPod(pod, stateOf(pod), seen);
      if (read.kind === "executor") executors.push(read.executor);
      else invalid.push(read.invalid);
    }
    for (const { last } of gonePods.all()) {
      const state = goneState(last.name);
      if (state === undefined || !belongsTo(last, owner)) continue;
      const read = executorOfPod(last, state, seen);
      // What is gone takes no slot, whatever it was.
      if (read.kind === "executor") executors.push(read.executor);
    }
    return { executors, invalid };
  };

  const until: PodView["until"] = async (name, look, ms, signal) => {
    const end = steady() + ms;
    let fetchedAt = steady();
    for (;;) {
      const pauseMs = Math.min(end, fetchedAt + recheckMs) - steady();
      using woken = listenForAny(
        [(either) => moved.next(either), (either) => clock.sleep(Math.max(0, pauseMs), either)],
        signal,
      );
      const found = look();
      if (found !== undefined || steady() >= end) return found;
      if (steady() >= fetchedAt + recheckMs) {
        fetchedAt = steady();
        // Whoever waits has time until the end.
        await abortable(fetch(name, signal), signal).catch(() => signal.throwIfAborted());
        continue;
      }
      await woken.first();
    }
  };

  /** Gone from the watch, and maybe only from there; or never seen in it. */
  const open = () => {
    const gone = gonePods.all().filter(({ surely }) => !surely);
    const pods = [...gone.map(({ last }) => last), ...view.unconfirmed(behindMs)];
    return new Set(pods.map(({ name }) => name));
  };
  const changesAt = () =>
    view
      .all()
      .flatMap((pod) => [
        states.lookAt(pod).changesAt ?? Infinity,
        steady() + (identities.lacksIn(pod.name) ?? Infinity),
      ]);

  return {
    run: async (signal) => {
      await Promise.all([
        tellInTime({ changesAt, moved, changed, clock: patient }, signal),
        makeSure({ open, ask: fetch, suspected, clock, log }, signal),
      ]);
    },
    list,
    all: () => view.all(),
    get: (name) => view.get(name),
    stateOf,
    goneState,
    note: (object) => {
      const pod = parsePod(object);
      view.note(pod);
      return pod;
    },
    fetch,
    discard: (name) => {
      const pod = view.get(name);
      if (pod !== undefined) discarded.add(pod.uid);
      gonePods.forget(name);
    },
    until,
    onChange: (listener) => {
      const own = (name?: string) => listener(name);
      listeners.add(own);
      return () => {
        listeners.delete(own);
      };
    },
    entryMoved: changed,
    ageMs: () => options.pods.ageMs(),
  };
}

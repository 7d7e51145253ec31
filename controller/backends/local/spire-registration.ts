import path from "node:path";
import type { BackendKind } from "../../assignment/backend-kind.ts";
import type { Clock } from "../../platform/clock.ts";
import { createKeyedQueue } from "../../platform/keyed-queue.ts";
import { BackendError } from "../backend.ts";
import type { Registration, Workload } from "./registration.ts";
import type { SpireEntries, SpireEntry } from "./spire-entries.ts";

/**
 * Server and agent hear of a deleted entry within 11 s (both look every 5 s by default). Until then a new process
 * of the same uid would get the identity of the executor before it.
 */
export const uidRestMs = 30_000;

export type SpireRegistrationOptions = {
  readonly kind: BackendKind;
  readonly owner: string;
  readonly parentId: string;
  readonly agentSocket: string;
  readonly svidTtlSeconds: number;
  readonly entries: SpireEntries;
  readonly clock: Clock;
};

/**
 * An entry of SPIRE for each executor: its uid is the selector. The entry's id tells owner, kind and executor, so
 * that nobody else's is ever touched and nothing else has to be kept.
 */
export function createSpireRegistration(options: SpireRegistrationOptions): Registration {
  const { kind, owner, parentId, agentSocket, svidTtlSeconds, entries, clock } = options;
  const prefix = `ci.${owner}.${kind}.`;
  const nameIn = ({ id }: SpireEntry) => (id.startsWith(prefix) ? id.slice(prefix.length) : undefined);
  /** When each uid may be given again. */
  const resting = new Map<number, number>();
  const rest = (uid: number) => resting.set(uid, clock.now() + uidRestMs);
  // One change at a time: a sweep must not remove by its id what was made anew since it looked.
  const queue = createKeyedQueue();
  const oneByOne = <T>(change: () => Promise<T>) => queue.run("", change);

  const add = async ({ name, spiffeId, uid }: Workload, signal: AbortSignal) => {
    if (uid === null) throw new BackendError("terminal", `${name} has no uid of its own`);
    const id = prefix + name;
    const selectors = [`unix:uid:${uid}`];
    const wanted = { id, spiffeId, parentId, selectors, x509TtlSeconds: svidTtlSeconds };
    const outcome = await entries.create(wanted, signal);
    if (outcome.kind === "created" || (outcome.kind === "exists" && outcome.id === id)) return;
    if (outcome.kind === "exists")
      throw new BackendError("retryable", `uid ${uid} has ${spiffeId} by the entry ${outcome.id} already`);
    // Left by an executor of this name whose files somebody has removed.
    await entries.remove(id, signal);
    for (const old of uidsOf(outcome.by)) rest(old);
    const again = await entries.create(wanted, signal);
    if (again.kind !== "created")
      throw new BackendError("retryable", `the entry ${id} is made by two at once`);
  };

  const sweep: Registration["sweep"] = async (executors, signal) => {
    const found = await entries.below(parentId, signal);
    const there = new Set(await executors());
    const removed: string[] = [];
    for (const entry of found) {
      const name = nameIn(entry);
      if (name === undefined || there.has(name)) continue;
      await entries.remove(entry.id, signal);
      for (const uid of uidsOf(entry)) rest(uid);
      removed.push(name);
    }
    return removed;
  };

  return {
    folder: path.dirname(agentSocket),
    socket: () => agentSocket,
    reservedUids: async (signal) => {
      const found = await entries.below(parentId, signal);
      for (const [uid, until] of resting) if (until <= clock.now()) resting.delete(uid);
      return new Set([...found.flatMap(uidsOf), ...resting.keys()]);
    },
    add: (workload, signal) => oneByOne(() => add(workload, signal)),
    remove: ({ name, uid }, signal) =>
      oneByOne(async () => {
        await entries.remove(prefix + name, signal);
        if (uid !== null) rest(uid);
      }),
    sweep: (executors, signal) => oneByOne(() => sweep(executors, signal)),
  };
}

function uidsOf({ selectors }: SpireEntry): readonly number[] {
  return selectors.flatMap((selector) => {
    const uid = /^unix:uid:([0-9]+)$/.exec(selector)?.[1];
    return uid === undefined ? [] : [Number(uid)];
  });
}

import type { BackendKind } from "../assignment/backend-kind.ts";
import {
  backendLabel,
  type ExecutorMetadata,
  executorName,
  ownerLabel,
} from "../assignment/executor-metadata.ts";
import type { Failure } from "../assignment/failure.ts";
import { BackendError } from "../backends/backend.ts";
import type { ApiCollection } from "../kubernetes/api-collection.ts";
import { ApiOutage, isRefusal } from "../kubernetes/kubernetes-api.ts";
import { createObjectView, type Versioned } from "../kubernetes/object-view.ts";
import { timeOf } from "../kubernetes/time-of.ts";
import type { WatchedList } from "../kubernetes/watched-list.ts";
import type { Clock, SteadyClock } from "../platform/clock.ts";
import {
  compareEntry,
  type EntryDocument,
  type EntryStanding,
  entryStanding,
  noticeMs,
  parseEntry,
} from "./entry-status.ts";
import { type EntryTarget, staticEntry, type StaticEntrySettings } from "./static-entry.ts";

export type KnownEntry = Versioned & { readonly document: EntryDocument };

/** The registration entries of our executors of one kind. Rejects as ApiCollection does, and with BackendError. */
export type EntryKeeper = {
  all(): readonly KnownEntry[];
  get(name: string): KnownEntry | undefined;
  /** Why no identity comes of the entry of that name; undefined if it may come, or if there is none. */
  lack(name: string): Failure | undefined;
  /** In how many milliseconds `lack` will be another one by time alone; undefined: never. */
  lacksIn(name: string): number | undefined;
  /**
   * Makes the entry, or finds it. Rejects with a BackendError of reason `identity` if what is there is somebody
   * else's, or if it is known that no identity will come of it.
   */
  add(metadata: ExecutorMetadata, target: EntryTarget, signal: AbortSignal): Promise<void>;
  /** Removes the entry of that name if it is ours; one that is gone is no error. */
  remove(name: string, signal: AbortSignal): Promise<void>;
  /** Removes exactly this one, as it was seen; false if it is another by now. */
  removeAsSeen(entry: KnownEntry, signal: AbortSignal): Promise<boolean>;
};

export type EntryKeeperOptions = {
  readonly entries: Pick<WatchedList, "documents" | "onChange">;
  readonly collection: ApiCollection;
  readonly owner: string;
  /** Of the executors. */
  readonly kind: BackendKind;
  readonly settings: StaticEntrySettings;
  /** Something about the entry of that name may be another now. */
  readonly onChange: (name: string) => void;
  readonly clock: Pick<Clock, "now">;
  readonly steady: SteadyClock;
};

/** A stale one makes way, and somebody may be quicker than we are; more than that is a quarrel. */
const mostTries = 3;

export function createEntryKeeper(options: EntryKeeperOptions): EntryKeeper {
  const { collection, owner, kind, settings, clock } = options;
  const view = createObjectView({
    list: options.entries,
    parse: readEntry,
    onGone: () => undefined,
    onChange: options.onChange,
    steady: options.steady,
  });

  const isOurs = ({ document }: KnownEntry) => {
    const { labels } = document.metadata;
    return labels[ownerLabel] === owner && labels[backendLabel] === kind;
  };

  const find = async (name: string, signal: AbortSignal): Promise<KnownEntry | undefined> => {
    const known = view.get(name);
    if (known !== undefined) return known;
    const answer = await collection.get(name, signal);
    const found = answer === undefined ? undefined : readEntry(answer);
    if (found !== undefined && isOurs(found)) view.note(found);
    return found;
  };

  const remove = async (entry: KnownEntry, version: boolean, signal: AbortSignal): Promise<boolean> => {
    if (!isOurs(entry)) return false;
    const { name, uid, resourceVersion } = entry;
    const removed = await collection.remove(name, { uid, ...(version ? { resourceVersion } : {}) }, signal);
    if (removed) view.noteGone(entry);
    return removed;
  };

  /** Undefined if it is not known whether it is there now. */
  const create = async (
    wanted: ReturnType<typeof staticEntry>,
    signal: AbortSignal,
  ): Promise<KnownEntry | undefined> => {
    try {
      const made = readEntry(await collection.create(wanted, signal));
      view.note(made);
      return made;
    } catch (error) {
      if (!isRefusal(error, "AlreadyExists") && !(error instanceof ApiOutage)) throw error;
      return find(wanted.metadata.name, signal);
    }
  };

  return {
    all: () => view.all(),
    get: (name) => view.get(name),
    lack: (name) => {
      const standing = standingOf(view.get(name), clock.now());
      return standing?.kind === "declared" ? undefined : standing?.failure;
    },
    lacksIn: (name) => {
      const [found, now] = [view.get(name), clock.now()];
      const standing = standingOf(found, now);
      const isOpen = standing?.kind === "waiting" && standing.failure === undefined;
      return isOpen ? createdAtOf(found, now) + noticeMs - now : undefined;
    },
    add: async (metadata, target, signal) => {
      const name = executorName(metadata.assignment, metadata.attempt);
      const wanted = staticEntry(metadata, target, settings);
      for (let tries = 0; tries < mostTries; tries++) {
        const found = view.get(name) ?? (await create(wanted, signal));
        if (found === undefined) continue;
        switch (compareEntry(found.document, wanted)) {
          case "same":
            checkStanding(found, clock.now());
            return;
          case "foreign":
            throw new BackendError("terminal", `ClusterStaticEntry ${name} is there already, and not ours`, {
              reason: "identity",
            });
          case "stale":
            if (!(await remove(found, false, signal))) view.noteGone(found);
            break;
        }
      }
      throw new BackendError("retryable", `ClusterStaticEntry ${name} could not be made`, {
        reason: "identity",
      });
    },
    remove: async (name, signal) => {
      const found = await find(name, signal);
      if (found !== undefined && !(await remove(found, false, signal)) && isOurs(found)) view.noteGone(found);
    },
    removeAsSeen: (entry, signal) => remove(entry, true, signal),
  };
}

function readEntry(value: unknown): KnownEntry {
  const document = parseEntry(value);
  const { name, uid, resourceVersion } = document.metadata;
  return { name, uid, resourceVersion, document };
}

function createdAtOf(found: KnownEntry | undefined, now: number): number {
  return timeOf(found?.document.metadata.creationTimestamp) ?? now;
}

function standingOf(found: KnownEntry | undefined, now: number): EntryStanding | undefined {
  return found && entryStanding(found.document, now - createdAtOf(found, now));
}

/** It is not waited for, since nothing in it says that an identity is there; but it may say that none will be. */
function checkStanding(found: KnownEntry, now: number): void {
  const standing = standingOf(found, now);
  if (standing === undefined || standing.kind === "declared") return;
  if (standing.failure === undefined) return;
  const kind = standing.kind === "failed" ? "terminal" : "retryable";
  throw new BackendError(kind, standing.failure.evidence, { reason: "identity" });
}

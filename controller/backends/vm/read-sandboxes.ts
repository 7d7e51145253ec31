import { ownerLabel, type Texts } from "../../assignment/executor-metadata.ts";
import type { OpenSandboxApi } from "../../opensandbox/opensandbox-api.ts";
import type { SteadyClock } from "../../platform/clock.ts";
import type { KnownSandboxes, KnownSandbox } from "./known-sandboxes.ts";
import { filterFor } from "./sandbox-executor.ts";
import type { VmTimes } from "./vm-options.ts";

/** What the server says, taken in. All reject as OpenSandboxApi does; then nothing is known that was not known before. */
export type SandboxReader = {
  /** All of ours: a list, and what it leaves open asked for one by one. */
  readAll(signal: AbortSignal): Promise<void>;
  /** Those of one executor by a list; resolves with what is known of it then. */
  readOf(name: string, signal: AbortSignal): Promise<readonly KnownSandbox[]>;
  /** One of which the list told something else than before, or nothing. */
  readOne(id: string, signal: AbortSignal): Promise<void>;
  /** Reads all if that was done too long ago. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Milliseconds since all were read; undefined: never yet. */
  ageMs(): number | undefined;
};

export type SandboxReaderOptions = {
  readonly api: Pick<OpenSandboxApi, "get" | "list">;
  readonly known: KnownSandboxes;
  readonly owner: string;
  readonly times: Pick<VmTimes, "staleMs" | "checkMs">;
  readonly steady: SteadyClock;
};

/** Asked for at the same time. A list that is suddenly empty must not become a burst of calls. */
const mostAtOnce = 4;

export function createSandboxReader(options: SandboxReaderOptions): SandboxReader {
  const { api, known, owner, times, steady } = options;
  let readAt: number | undefined;

  const readOne = async (id: string, signal: AbortSignal) => {
    const found = await api.get(id, signal);
    if (found === undefined) known.noteMissing(id);
    else known.note(found, true);
  };

  /** Takes a list in. `doubtful`: those of which it is not believed. */
  const take = async (filter: Texts, signal: AbortSignal) => {
    const sandboxes = await api.list(filter, signal);
    const doubtful = new Set<string>();
    for (const sandbox of sandboxes)
      if (known.isDoubtful(sandbox)) doubtful.add(sandbox.id);
      else known.note(sandbox, false);
    return { listed: new Set(sandboxes.map(({ id }) => id)), doubtful };
  };

  const readAll = async (signal: AbortSignal) => {
    const askedAt = steady();
    const before = known.all().filter(({ life }) => !life.isGone);
    const { listed, doubtful } = await take({ [ownerLabel]: owner }, signal);
    readAt = askedAt;
    const isOpen = ({ id, life, askedAt: last }: KnownSandbox) => {
      if (!listed.has(id) || doubtful.has(id)) return true;
      return life.state.phase !== "ended" && steady() - last >= times.checkMs;
    };
    await inTurns(
      [...new Set([...before.filter(isOpen).map(({ id }) => id), ...doubtful])],
      (id) => readOne(id, signal),
      signal,
    );
  };

  return {
    readAll,
    readOne,
    readOf: async (name, signal) => {
      const filter = filterFor(name, owner);
      if (filter !== undefined) {
        const { doubtful } = await take(filter, signal);
        for (const id of doubtful) await readOne(id, signal);
      }
      return known.of(name);
    },
    refresh: async (signal) => {
      if (readAt === undefined || steady() - readAt > times.staleMs) await readAll(signal);
    },
    ageMs: () => (readAt === undefined ? undefined : steady() - readAt),
  };
}

/** Each is tried; one that gets no answer is asked for again the next time. */
async function inTurns(
  ids: readonly string[],
  work: (id: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const waiting = [...ids];
  const worker = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      await work(id).catch(() => undefined);
      signal.throwIfAborted();
    }
  };
  await Promise.all(Array.from({ length: Math.min(mostAtOnce, ids.length) }, worker));
}

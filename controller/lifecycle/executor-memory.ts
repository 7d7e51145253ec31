import type { Times } from "../assignment/times.ts";

/**
 * What was asked of executors and what lists have said of them, in memory only: a controller that starts anew counts
 * from its start. Names are unique for ever, so what was deleted once never comes back as something else.
 */
export type ExecutorMemory = {
  /** True for the first time. */
  killAsked(name: string): boolean;
  deleteAsked(name: string): boolean;
  /** Takes in a list: what is there, and which assignments lack the executor of their current attempt. */
  listed(
    executors: readonly { readonly name: string; readonly alive: boolean }[],
    lacking: ReadonlyMap<string, string>,
    askedAt: number,
  ): void;
  /** It was seen gone, or has been deleted: an old list may still show it. */
  isGone(name: string): boolean;
  forgot(name: string): void;
  /** Should be gone for long, and is still there in the last list. */
  lingering(): ReadonlySet<string>;
  /** Since when every list has lacked the executor of that name. */
  absentSince(id: string, name: string): number | undefined;
};

type Known = {
  killAt?: number;
  deleteAt?: number;
  alive: boolean;
  there: boolean;
  /** When it was last asked of or listed. */
  touchedAt: number;
};

/** No list is as old as this. */
const rememberMs = 10 * 60_000;

export function createExecutorMemory(
  { lingerMs }: Pick<Times, "lingerMs">,
  now: () => number,
): ExecutorMemory {
  const known = new Map<string, Known>();
  const absent = new Map<string, { readonly name: string; readonly since: number }>();

  const late = (since: number | undefined) => since !== undefined && now() - since >= lingerMs;

  const touched = (name: string): Known => {
    const found = known.get(name) ?? { alive: true, there: true, touchedAt: now() };
    found.touchedAt = now();
    known.set(name, found);
    return found;
  };

  return {
    killAsked: (name) => {
      const found = touched(name);
      const first = found.killAt === undefined;
      found.killAt ??= now();
      return first;
    },
    deleteAsked: (name) => {
      const found = touched(name);
      const first = found.deleteAt === undefined;
      found.deleteAt ??= now();
      return first;
    },
    listed: (executors, lacking, askedAt) => {
      const alive = new Map(executors.map((executor) => [executor.name, executor.alive]));
      for (const [name, found] of known) {
        found.there = alive.has(name);
        found.alive = alive.get(name) ?? false;
        if (found.there) found.touchedAt = now();
        else if (now() - found.touchedAt >= rememberMs) known.delete(name);
      }
      for (const [id, { name }] of absent) if (lacking.get(id) !== name) absent.delete(id);
      for (const [id, name] of lacking) if (!absent.has(id)) absent.set(id, { name, since: askedAt });
    },
    isGone: (name) => known.get(name)?.deleteAt !== undefined,
    forgot: (name) => {
      const found = touched(name);
      found.deleteAt ??= now();
      found.there = false;
    },
    lingering: () => {
      const names = [...known]
        .filter(([, found]) => found.there && ((found.alive && late(found.killAt)) || late(found.deleteAt)))
        .map(([name]) => name);
      return new Set(names);
    },
    absentSince: (id, name) => {
      const found = absent.get(id);
      return found?.name === name ? found.since : undefined;
    },
  };
}

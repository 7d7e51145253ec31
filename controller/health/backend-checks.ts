import type { Check } from "./health-server.ts";

/** What one backend shows of itself, for checks and metrics. */
export type BackendState = {
  readonly backend: string;
  /** Places that are taken. */
  readonly used: number;
  readonly capacity: number;
  /** How long the oldest task has waited that has no place yet, in milliseconds; 0 if none waits. */
  readonly waitingMs: number;
  /** Why nothing is created; undefined if something is. */
  readonly circuit: string | undefined;
  /** Since its executors were listed, or were to be listed first, in milliseconds; undefined before that. */
  readonly silentMs: number | undefined;
  /** How old what it watches is, in milliseconds; undefined if it watches nothing, or has not begun. */
  readonly viewAgeMs: number | undefined;
  /** Executors that should be gone for long. */
  readonly lingering: number;
  /** Executors whose metadata cannot be read. */
  readonly invalid: number;
};

/** Many times as long as the pause between two lists. */
const silentAllowedMs = 60_000;

/** What an operator should look at, a line for each backend and kind of trouble. */
export function backendChecks(
  names: readonly string[],
  states: () => readonly BackendState[],
): readonly Check[] {
  return names.flatMap((name) => {
    const check = (what: string, problem: (state: BackendState) => string | undefined): Check => ({
      name: `${name} ${what}`,
      problem: () => {
        const state = states().find(({ backend }) => backend === name);
        return state === undefined ? undefined : problem(state);
      },
    });
    return [
      check("circuit", ({ circuit }) => circuit),
      check("backend", ({ silentMs }) => silence(silentMs)),
      check("view", ({ viewAgeMs }) => stale(viewAgeMs)),
      check("executors", ({ lingering, invalid }) => leftOver(lingering, invalid)),
    ];
  });
}

/** A line for each backend that has live records and no worker in this process. */
export function unservedChecks(names: readonly string[], live: (name: string) => number): readonly Check[] {
  return names.map((name) => ({
    name: `${name} worker`,
    problem: () => {
      const count = live(name);
      if (count === 0) return undefined;
      return `COMPONENTS lacks it, and ${count} assignments of it are live: nobody speaks for them or ends them`;
    },
  }));
}

function silence(ms = 0): string | undefined {
  if (ms < silentAllowedMs) return undefined;
  return `its executors could not be listed for ${Math.round(ms / 1000)} s`;
}

/** A watch of Kubernetes hears something each minute, be it a bookmark; VMs are listed more often. */
const staleMs = 120_000;

function stale(ms = 0): string | undefined {
  if (ms < staleMs) return undefined;
  return `it has heard of no changes for ${Math.round(ms / 1000)} s: is its API there, and may we read it?`;
}

function leftOver(lingering: number, invalid: number): string | undefined {
  const parts = [
    ...(lingering === 0 ? [] : [`${lingering} should be gone for long`]),
    ...(invalid === 0 ? [] : [`${invalid} have metadata that cannot be read, and take places`]),
  ];
  return parts.length === 0 ? undefined : `${parts.join("; ")}: the log names them`;
}

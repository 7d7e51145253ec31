import type { ExecutorState } from "../backend.ts";

/** What decides between several sandboxes of one executor. */
export type Twin = {
  readonly id: string;
  readonly isValid: boolean;
  readonly isGone: boolean;
  readonly isStopping: boolean;
  readonly phase: ExecutorState["phase"];
  /** This process has handed it out as the executor. */
  readonly isHandedOut: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
};

/**
 * Which of several sandboxes is the executor of their name; the others are to be deleted. One that is handed out may have
 * been given its identity and have claimed: it stays as long as it lives. Then one that runs, for its facade has refused
 * the others by then, or will; then the oldest, which whoever else looks takes as well. Pure; undefined of none.
 */
export function keptOf<T extends Twin>(twins: readonly T[]): T | undefined {
  const [kept] = twins.toSorted(
    (a, b) =>
      first(a.isValid, b.isValid) ||
      first(lives(a), lives(b)) ||
      first(a.isHandedOut, b.isHandedOut) ||
      first(!a.isStopping, !b.isStopping) ||
      first(a.phase === "running", b.phase === "running") ||
      first(!a.isGone, !b.isGone) ||
      a.createdAt - b.createdAt ||
      (a.id < b.id ? -1 : 1),
  );
  return kept;
}

function lives({ isGone, phase }: Twin): boolean {
  return !isGone && phase !== "ended";
}

function first(a: boolean, b: boolean): number {
  return Number(b) - Number(a);
}

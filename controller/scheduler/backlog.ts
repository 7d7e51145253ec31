import type { BackendKind } from "../assignment/backend-kind.ts";

/** What of one backend waits for a slot: tasks that Gitea has handed out and that age from then on. */
export type BackendLoad = {
  readonly kind: BackendKind;
  readonly waiting: number;
  /** How long the oldest of them has waited; 0 if none does. */
  readonly oldestMs: number;
  /** `POD_BACKLOG`, `VM_BACKLOG`: how many may wait. */
  readonly backlog: number;
};

/** A task that has waited this long says that its backend is not getting on. */
const oldestAllowedMs = 10 * 60_000;

/**
 * The backends that take more tasks. A full one is left out, so that its tasks wait in Gitea, where they do not age
 * and where the other backend's are found behind them.
 */
export function openBackends(loads: readonly BackendLoad[]): readonly BackendKind[] {
  return loads
    .filter(({ waiting, backlog, oldestMs }) => waiting < backlog && oldestMs < oldestAllowedMs)
    .map(({ kind }) => kind);
}

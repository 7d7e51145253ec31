import type { AssignmentRecord } from "../assignment/record.ts";

export type WatchedAssignments = {
  get(id: string): { readonly record: AssignmentRecord } | undefined;
  /** Resolves when any assignment has changed; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void>;
};

/** Whether nothing is to be started any more: it is claimed, its end is decided, or it is forgotten. */
export function isSettled(known: { readonly record: AssignmentRecord } | undefined): boolean {
  const phase = known?.record.phase.name;
  switch (phase) {
    case "queued":
    case "starting":
    case "adopted":
      return false;
    case "claimed":
    case "ending":
    case "finished":
    case undefined:
      return true;
    default:
      return phase satisfies never;
  }
}

/**
 * Works towards a claim until there is one, or an end: then the work's signal is aborted, and it resolves to
 * "settled" as soon as the work has given up. So a create under way does not outlive a cancel.
 */
export async function untilSettled<T>(
  assignments: WatchedAssignments,
  id: string,
  work: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Promise<T | "settled"> {
  const settled = new AbortController();
  const over = new AbortController();
  const watching = AbortSignal.any([signal, over.signal]);
  const watch = async () => {
    while (!isSettled(assignments.get(id))) await assignments.changed(watching);
    settled.abort(new Error(`${id} is settled`));
  };
  // Its only rejection is that nobody needs it any more.
  watch().catch(() => undefined);
  try {
    const result = await work(AbortSignal.any([signal, settled.signal]));
    return settled.signal.aborted ? "settled" : result;
  } catch (error) {
    if (settled.signal.aborted && !signal.aborted) return "settled";
    throw error;
  } finally {
    over.abort();
  }
}

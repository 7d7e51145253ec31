import type { WatchEvent } from "./kubernetes-api.ts";

/** One collection, listed and watched, in memory. */
export type WatchedList = {
  /** Lists, watches, and lists again, through outages of whatever length. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when the first whole list is there. */
  synced(signal: AbortSignal): Promise<void>;
  /** As they were last seen. Empty before the first list. */
  documents(): readonly unknown[];
  /** By `metadata.name`; undefined if there is none. */
  get(name: string): unknown;
  /**
   * Resolves when a list that began after this call is in the view; calls that wait share one. Rejects as
   * KubernetesApi does if that list fails, and with the signal's reason. Needs `run`.
   */
  refresh(signal: AbortSignal): Promise<void>;
  /**
   * Calls the listener for each change, after the view has it; returns how to stop that. An object that vanished
   * unseen is told as DELETED with its last state.
   */
  onChange(listener: (event: WatchEvent) => void): () => void;
  /** Milliseconds since the view was known to be current: a list, an event or a bookmark; undefined: never yet. */
  ageMs(): number | undefined;
};

import type { Clock } from "../../../controller/platform/clock.ts";
import { untilAborted } from "../../../controller/platform/signal.ts";
import type { StoredSandbox } from "./stored-sandbox.ts";

/** What the server stores its sandboxes in, and the copy of that from which it reads. */
export type Store = {
  add(sandbox: StoredSandbox): void;
  get(id: string): StoredSandbox | undefined;
  all(): readonly StoredSandbox[];
  /** None of that id is no error. */
  change(id: string, part: Partial<Omit<StoredSandbox, "id">>): void;
  /** It is gone, or going for as long as it is held. */
  delete(id: string): void;
  release(id: string): void;
  /** Called after each change. */
  onChange(tell: () => void): void;
  /** Resolves after the next change, or after `ms` if given; rejects with the signal's reason. */
  changed(signal: AbortSignal, ms?: number): Promise<void>;
};

/** Sandboxes whose time is over are deleted, until `life` is aborted. */
export function createStore(clock: Clock, life: AbortSignal): Store {
  const sandboxes = new Map<string, StoredSandbox>();
  const ends = new Map<string, AbortController>();
  const listeners = new Set<() => void>();
  const tellAll = () => {
    for (const tell of listeners) tell();
  };
  const remove = (id: string) => {
    sandboxes.delete(id);
    ends.get(id)?.abort();
    ends.delete(id);
  };
  const change: Store["change"] = (id, part) => {
    const before = sandboxes.get(id);
    if (before === undefined) return;
    const after = { ...before, ...part };
    if (after.isDeleting && !after.isHeld) remove(id);
    else sandboxes.set(id, after);
    tellAll();
  };
  const endAt = (id: string, ms: number) => {
    const end = new AbortController();
    ends.set(id, end);
    clock.sleep(ms, AbortSignal.any([life, end.signal])).then(
      () => change(id, { isDeleting: true }),
      () => undefined,
    );
  };
  return {
    add: (sandbox) => {
      sandboxes.set(sandbox.id, sandbox);
      if (sandbox.expiresAt !== undefined) endAt(sandbox.id, sandbox.expiresAt - clock.now());
      tellAll();
    },
    get: (id) => sandboxes.get(id),
    all: () => [...sandboxes.values()],
    change,
    delete: (id) => change(id, { isDeleting: true }),
    release: (id) => change(id, { isHeld: false }),
    onChange: (tell) => {
      listeners.add(tell);
    },
    changed: async (signal, ms) => {
      const over = new AbortController();
      const told = () => over.abort();
      listeners.add(told);
      const either = AbortSignal.any([signal, over.signal]);
      try {
        await (ms === undefined ? untilAborted(either) : clock.sleep(ms, either));
      } catch {
        // Told in time.
      } finally {
        listeners.delete(told);
      }
      signal.throwIfAborted();
    },
  };
}

import type { Clock } from "../platform/clock.ts";
import type { KeyValue } from "../platform/key-value.ts";
import { fromBucket, RecordStoreUnavailableError } from "./errors.ts";

export type LeaderKeyOptions = {
  readonly bucket: Pick<KeyValue, "read" | "write">;
  /** No two processes have the same. */
  readonly identity: string;
  /** From one look to the next. */
  readonly pollMs: number;
  readonly clock: Pick<Clock, "sleep">;
};

/**
 * Who leads, told in the state bucket beside the Lease: a leader that lost its Lease because the API server is away
 * learns here that another one has taken over.
 */
export type LeaderKey = {
  /**
   * To be done by a new leader before it reads or writes anything else there. `mustLead` is asked right before the
   * write. Rejects with RecordStoreUnavailableError while it cannot be written, and the caller tries again.
   */
  write(mustLead: () => void, signal: AbortSignal): Promise<void>;
  /** Resolves when another one's name stands there, through outages of whatever length; rejects with the signal's reason. */
  superseded(signal: AbortSignal): Promise<void>;
};

/** Records are named after their assignments. */
const key = "leader";

export function createLeaderKey({ bucket, identity, pollMs, clock }: LeaderKeyOptions): LeaderKey {
  const value = new TextEncoder().encode(identity);
  return {
    write: async (mustLead, signal) => {
      const found = await inBucket(bucket.read(key, signal), signal);
      mustLead();
      const { kind } = await inBucket(bucket.write(key, value, found?.revision ?? 0, signal), signal);
      if (kind === "conflict")
        throw new RecordStoreUnavailableError("unreachable", `somebody else writes the key ${key} as well`);
    },
    superseded: async (signal) => {
      for (;;) {
        // One that is absent, or cannot be read, tells nothing.
        const found = await bucket.read(key, signal).catch(() => undefined);
        signal.throwIfAborted();
        if (found !== undefined && new TextDecoder().decode(found.value) !== identity) return;
        await clock.sleep(pollMs, signal);
      }
    },
  };
}

async function inBucket<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw fromBucket(`writing the key ${key}`, error, signal);
  }
}

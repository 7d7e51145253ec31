import type { Texts } from "../../../controller/assignment/executor-metadata.ts";
import type { Clock } from "../../../controller/platform/clock.ts";

/** What a pool's status counts. */
export type Places = { readonly total: number; readonly allocated: number; readonly available: number };

/**
 * The controller of pools, played by hand: nothing is given, counted or removed unless a test says so. Each call resolves
 * when it is stored; the server may need a moment to see it.
 */
export type PlayedPools = {
  /** Makes the pool `name`, or counts it anew. Without places its controller has not counted yet. */
  setPool(name: string, places?: Places): Promise<void>;
  removePool(name: string): Promise<void>;
  /** Resolves with the id of a sandbox with this metadata, as soon as one is stored; rejects if none comes. */
  asked(metadata: Texts): Promise<string>;
  /** The sandbox is stored, whatever the server says of it. */
  isThere(id: string): Promise<boolean>;
  /** A VM that is ready. Until `release` its sandbox's deletion does not end. */
  give(id: string): Promise<void>;
  /** A VM that has an address and is not ready: `Allocated`. */
  giveUnready(id: string): Promise<void>;
  /** The pool is full, and says so of this sandbox (`PoolAllocationPending`) or takes it back. */
  setFull(id: string, isFull: boolean): Promise<void>;
  /** The VM failed: phase `Failed`, with that message in its condition `PodFailed`. */
  fail(id: string, message: string): Promise<void>;
  /** The VM has ended, by itself or not: phase `Pending`, and it still has its place. */
  end(id: string): Promise<void>;
  /** Writes a phase that nobody knows. */
  confuse(id: string): Promise<void>;
  /** Another client's label. */
  label(id: string, label: Texts): Promise<void>;
  /** Holds up the deletion of a sandbox, also of one that has no VM. */
  hold(id: string): Promise<void>;
  /** The place is free again: lets a deletion end that `give` or `hold` holds up. */
  release(id: string): Promise<void>;
  /** Deletes it behind the server's back. */
  remove(id: string): Promise<void>;
};

/**
 * A server for the contract suite, with the pools' controller in the test's hands. One may serve many tests: they take
 * owners, pools and metadata that no other has.
 */
export type OpenSandboxUnderTest = AsyncDisposable & {
  /** Without `/v1`. */
  readonly url: URL;
  readonly key: string;
  readonly limits: {
    /** How long a create waits for its VM. */
    readonly createMs: number;
    /** How long of that the pool may be full. Shorter. */
    readonly poolMs: number;
    /** `server.max_sandbox_timeout_seconds`. */
    readonly lifeSeconds: number;
  };
  /** The time of the clients that the suite makes. */
  readonly clock: Clock;
  /** That much time goes by, for the server too. */
  pass(ms: number): Promise<void>;
  readonly pools: PlayedPools;
  /** Kills the server, as a crash does, and starts it again on the same URL. Resolves when it answers. */
  restart(): Promise<void>;
  /** What the server stores its sandboxes in (the API server of its cluster) refuses connections, or is back. */
  setStoreAway(away: boolean): Promise<void>;
};

let number = 0;

/** A name that no other test has, on a server that many tests share. */
export function newName(what: string): string {
  return `contract-${what}-${process.pid}-${++number}`;
}

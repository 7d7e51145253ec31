import { randomUUID } from "node:crypto";
import type { Texts } from "../../../controller/assignment/executor-metadata.ts";
import type { Clock } from "../../../controller/platform/clock.ts";
import type { Troubles } from "./operations.ts";
import type { FakePools } from "./pools.ts";
import type { Store } from "./store.ts";
import { metadataOf, type StoredSandbox, type Vm } from "./stored-sandbox.ts";

/** What others do in the server's cluster, and what becomes of the server. */
export type Hands = {
  /** All that is stored, or what has this metadata, oldest first. */
  sandboxes(metadata?: Texts): readonly StoredSandbox[];
  sandbox(id: string): StoredSandbox | undefined;
  /** Resolves with the first one that has this metadata, as soon as it is stored. */
  asked(metadata: Texts): Promise<StoredSandbox>;
  /** Resolves after the next change of anything that is stored. */
  changed(): Promise<void>;
  /** Stores one without a create, as what was before is there. */
  put(sandbox: Partial<StoredSandbox>): StoredSandbox;
  change(id: string, part: Partial<Omit<StoredSandbox, "id">>): void;
  /** A VM, whatever places its pool has. */
  give(id: string, vm?: Vm): void;
  /** The VM has ended. */
  end(id: string): void;
  /** The VM has failed. */
  fail(id: string, message?: string): void;
  /** Another word for its state from now on. */
  say(id: string, state: string, reason?: string): void;
  /** Its deletion does not end before `release`. */
  hold(id: string): void;
  release(id: string): void;
  remove(id: string): void;
  /** Lists, or all reads, show for ever what is there now, or these. */
  freeze(what: "lists" | "reads", sandboxes?: readonly StoredSandbox[]): void;
  thaw(): void;
  /** Creates that come to nothing leave their sandboxes, or no more. */
  failRollbacks(fails: boolean): void;
  /** The server's own cluster is away. */
  setStoreAway(isAway: boolean): void;
  /** The pools' controller writes the phase `Pending` at once. */
  setOld(isOld: boolean): void;
};

export function createHands(
  store: Store,
  pools: FakePools,
  troubles: Troubles,
  clock: Clock,
  life: AbortSignal,
): Hands {
  const having = (metadata: Texts) =>
    store.all().filter((one) => {
      const has = metadataOf(one);
      return Object.entries(metadata).every(([key, value]) => has[key] === value);
    });
  return {
    sandboxes: (metadata = {}) => having(metadata),
    sandbox: (id) => store.get(id),
    asked: async (metadata) => {
      for (;;) {
        const [found] = having(metadata);
        if (found !== undefined) return found;
        await store.changed(life);
      }
    },
    changed: () => store.changed(life),
    put: (part) => {
      const sandbox = { ...bare, id: randomUUID(), createdAt: clock.now(), ...part };
      store.add(sandbox);
      return sandbox;
    },
    change: (id, part) => store.change(id, part),
    give: (id, vm = { kind: "ready" }) =>
      store.change(id, { vm, hasPlace: true, isHeld: true, isFull: false }),
    end: (id) => store.change(id, { vm: { kind: "ended" } }),
    fail: (id, message = "the VM has failed") => store.change(id, { vm: { kind: "failed", message } }),
    say: (id, state, reason) =>
      store.change(id, { says: { state, ...(reason === undefined ? {} : { reason }) } }),
    hold: (id) => {
      pools.heldByHand.add(id);
      store.change(id, { isHeld: true });
    },
    release: (id) => {
      pools.heldByHand.delete(id);
      store.release(id);
    },
    remove: (id) => store.delete(id),
    freeze: (what, sandboxes = store.all()) => {
      troubles.frozen = { what, sandboxes };
    },
    thaw: () => {
      delete troubles.frozen;
    },
    failRollbacks: (fails) => {
      troubles.failsRollback = fails;
    },
    setStoreAway: (isAway) => {
      troubles.isStoreAway = isAway;
    },
    setOld: (isOld) => {
      troubles.isOld = isOld;
    },
  };
}

const bare: Omit<StoredSandbox, "id" | "createdAt"> = {
  pool: "ci-vm",
  environment: {},
  extensions: { poolRef: "ci-vm" },
  labels: {},
  vm: { kind: "none" },
  hasPlace: false,
  isFull: false,
  isHeld: false,
  isDeleting: false,
};

import type { Texts } from "../../../controller/assignment/executor-metadata.ts";
import type { Clock } from "../../../controller/platform/clock.ts";
import type { Places } from "../../support/opensandbox/under-test.ts";
import type { Store } from "./store.ts";
import { metadataOf, type StoredSandbox } from "./stored-sandbox.ts";

/** A VM that has begun, and what is to run in it. */
export type StartedSandbox = {
  readonly id: string;
  readonly entrypoint: readonly string[];
  readonly environment: Texts;
  readonly metadata: Texts;
};

export type PoolHooks = {
  /** A VM is ready, and is told what to run. */
  readonly onStart?: (sandbox: StartedSandbox) => void;
  /** A VM that had begun is taken away, whether it runs or not; what runs in it is at its end. */
  readonly onStop?: (id: string) => void;
};

export type PoolBehaviour = {
  /** Until a VM is ready. */
  readonly bootMs: number;
  /** From a deletion until the VM and its sandbox are gone. */
  readonly stopMs: number;
  /** What becomes of a VM that boots. */
  readonly boot: "ready" | "fails" | "never";
  /** How often it is told what to run. */
  readonly injects: 0 | 1 | 2;
  /** Says of a sandbox that there is no place for it, as controllers do of late. */
  readonly saysFull: boolean;
};

const usual: PoolBehaviour = { bootMs: 0, stopMs: 0, boot: "ready", injects: 1, saysFull: true };

type FakePool = {
  readonly name: string;
  readonly createdAt: number;
  /** Of one that is played by hand. */
  readonly counts?: Places;
  /** Of one that works by itself. */
  readonly works?: PoolBehaviour & { readonly places: number };
};

export type FakePools = {
  /** One that a test plays by hand, with what its status counts. */
  set(name: string, counts?: Places): void;
  /** One that works by itself, with so many places; again to change it. Who waits first is served first. */
  open(name: string, places: number, behaviour?: Partial<PoolBehaviour>): void;
  remove(name: string): void;
  has(name: string): boolean;
  /** As the server shows it. */
  document(name: string): object | undefined;
  /** Its VM is told once more what to run. */
  inject(id: string): void;
  /** A deletion waits for more than the pool. */
  readonly heldByHand: Set<string>;
};

export function createPools(store: Store, clock: Clock, hooks: PoolHooks, life: AbortSignal): FakePools {
  const pools = new Map<string, FakePool>();
  const heldByHand = new Set<string>();
  const stopping = new Set<string>();
  const begun = new Set<string>();
  let isTurning = false;
  let isDue = false;

  const later = (ms: number, work: () => void) => {
    if (ms === 0) work();
    else clock.sleep(ms, life).then(work, () => undefined);
  };
  const inject = (id: string) => {
    const sandbox = store.get(id);
    if (sandbox === undefined) throw new Error(`there is no sandbox ${id}`);
    const { entrypoint = ["tail", "-f", "/dev/null"], environment } = sandbox;
    hooks.onStart?.({ id, entrypoint, environment, metadata: metadataOf(sandbox) });
  };
  const boot = ({ id }: StoredSandbox, { boot: outcome, bootMs, injects }: PoolBehaviour) => {
    store.change(id, { hasPlace: true, isHeld: true, isFull: false, vm: { kind: "scheduled" } });
    if (outcome === "never") return;
    later(bootMs, () => {
      if (store.get(id)?.vm.kind !== "scheduled") return;
      if (outcome === "fails") {
        store.change(id, { vm: { kind: "failed", message: "the VM does not boot" } });
        return;
      }
      store.change(id, { vm: { kind: "ready" } });
      begun.add(id);
      for (let times = 0; times < injects; times++) inject(id);
    });
  };
  const stop = ({ id }: StoredSandbox, { stopMs }: PoolBehaviour) => {
    stopping.add(id);
    later(stopMs, () => {
      stopping.delete(id);
      store.release(id);
    });
  };
  const placesTaken = (name: string) =>
    store.all().filter(({ pool, hasPlace }) => pool === name && hasPlace).length;

  const turn = () => {
    for (const { name, works } of pools.values()) {
      if (works === undefined) continue;
      let free = works.places - placesTaken(name);
      for (const sandbox of store.all().filter(({ pool }) => pool === name)) {
        const { id, isDeleting, isHeld, hasPlace, vm, isFull } = sandbox;
        const isWaiting = vm.kind === "none" && !hasPlace;
        if (isDeleting) {
          if (isHeld && !stopping.has(id) && !heldByHand.has(id)) stop(sandbox, works);
        } else if (isWaiting && free-- > 0) boot(sandbox, works);
        else if (isWaiting && works.saysFull && !isFull) store.change(id, { isFull: true });
      }
    }
    for (const id of begun)
      if (store.get(id) === undefined) {
        begun.delete(id);
        hooks.onStop?.(id);
      }
  };
  /** What it changes makes it due again. */
  const turnUntilDone = () => {
    isDue = true;
    if (isTurning) return;
    isTurning = true;
    try {
      while (isDue) {
        isDue = false;
        turn();
      }
    } finally {
      isTurning = false;
    }
  };
  store.onChange(turnUntilDone);
  const put = (name: string, kind: Pick<FakePool, "counts" | "works">) => {
    pools.set(name, { name, createdAt: pools.get(name)?.createdAt ?? clock.now(), ...kind });
    turnUntilDone();
  };

  return {
    set: (name, counts) => put(name, counts === undefined ? {} : { counts }),
    open: (name, places, behaviour) =>
      put(name, { works: { ...usual, ...pools.get(name)?.works, ...behaviour, places } }),
    remove: (name) => {
      pools.delete(name);
    },
    has: (name) => pools.has(name),
    document: (name) => {
      const pool = pools.get(name);
      if (pool === undefined) return undefined;
      const total = pool.works?.places ?? 0;
      const allocated = placesTaken(name);
      const counted = { total, allocated, available: Math.max(0, total - allocated) };
      const counts = pool.works === undefined ? pool.counts : counted;
      return {
        name,
        capacitySpec: { bufferMin: 1, bufferMax: 2, poolMin: 1, poolMax: counts?.total ?? 4 },
        ...(counts === undefined ? {} : { status: { ...counts, revision: "1" } }),
        createdAt: new Date(pool.createdAt).toISOString(),
      };
    },
    inject,
    heldByHand,
  };
}

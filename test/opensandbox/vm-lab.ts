import { randomUUID } from "node:crypto";
import { filterFor } from "../../controller/backends/vm/sandbox-executor.ts";
import { createVmBackend, type VmBackend } from "../../controller/backends/vm/vm-backend.ts";
import type { VmBackendOptions, VmTimes } from "../../controller/backends/vm/vm-options.ts";
import { createHttpApi } from "../../controller/opensandbox/http-api.ts";
import { type Clock, systemClock } from "../../controller/platform/clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import type { BackendUnderTest } from "../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import type { PoolController } from "../support/opensandbox/pool-controller.ts";
import type { BatchSandbox } from "../support/opensandbox/sandbox-resources.ts";
import { newName } from "../support/opensandbox/under-test.ts";
import type { OpenSandboxLab } from "../support/opensandbox/use-opensandbox.ts";
import { createIdleVms } from "../support/opensandbox/vm-host.ts";
import { createFakeVmIdentity, type FakeVmIdentity, shortVmTimes } from "../support/vm.ts";

export type VmLabWorld = BackendUnderTest & {
  readonly backend: VmBackend;
  readonly pool: PoolController;
  readonly identity: FakeVmIdentity;
  readonly log: RecordingLogger;
  /** How many VMs the pool has ever given. */
  given(): number;
  another(overrides?: Partial<VmBackendOptions>): VmBackend;
  /** The sandboxes of an executor of the test's owner, as the cluster has them. */
  sandboxes(name: string): Promise<readonly BatchSandbox[]>;
};

const { signal } = new AbortController();
const { owner } = anExecutorMetadata();
const places = 8;

/** What the real server is able to on a busy machine: `createWindowMs` is longer than it waits for a VM. */
export function labVmTimes({ server }: OpenSandboxLab): VmTimes {
  const createWindowMs = server.settings.createSeconds * 1000 + 5_000;
  return { ...shortVmTimes, pollMs: 100, idleMs: 200, lagMs: 1_000, createWindowMs, goneMs: 20_000 };
}

export type VmLabOptions = {
  readonly times?: Partial<VmTimes>;
  /** How the backend comes to the server; straight unless given. */
  readonly url?: URL;
  /** The key of each call; the right one unless given. */
  readonly key?: () => string;
  readonly capacity?: number;
};

/** A backend over a real server, with a pool of its own. It leaves no sandbox there. */
export async function makeVmLab(lab: OpenSandboxLab, options: VmLabOptions = {}): Promise<VmLabWorld> {
  // Node's timers hold no more than 24 days; a test's executors may live longer.
  const clock: Clock = {
    now: () => systemClock.now(),
    sleep: (ms, abort) => systemClock.sleep(Math.min(ms, 2 ** 31 - 1), abort),
  };
  const { url = lab.server.url, key = () => lab.server.key, capacity = places } = options;
  const vms = createIdleVms();
  const pool = await lab.pool({ pool: newName("vm"), capacity, host: vms });
  const api = createHttpApi({ url, key: () => Promise.resolve(key()), requestId: randomUUID, clock });
  const log = createRecordingLogger();
  const identity = createFakeVmIdentity();
  const over = new AbortController();
  const runs: Promise<unknown>[] = [];
  const another: VmLabWorld["another"] = (overrides = {}) => {
    const backend = createVmBackend({
      api,
      identity,
      owner,
      trustDomain: testTrustDomain,
      pool: pool.pool,
      times: { ...labVmTimes(lab), ...options.times },
      clock,
      random: Math.random,
      log,
      ...overrides,
    });
    runs.push(backend.run(over.signal));
    return backend;
  };
  const backend = another();
  const sandboxes = async (name: string) => {
    const wanted = filterFor(name, owner);
    if (wanted === undefined) return [];
    const all = await lab.resources.list(signal);
    return all
      .filter(({ labels }) => Object.entries(wanted).every(([label, value]) => labels[label] === value))
      .filter(({ labels }) => labels["ci.ddupan.top/nonce"]?.slice(0, 8) === name.slice(-8));
  };
  return {
    backend,
    pool,
    identity,
    log,
    another,
    given: () => vms.tasks.size,
    sandboxes,
    forgetsKilled: true,
    namesPerOwner: true,
    restarted: async () => another(),
    ofOwner: async (other) => another({ owner: other }),
    makeBindable: async () => undefined,
    end: async (name) => {
      for (const { id } of await sandboxes(name)) await pool.vmOf(id)?.stop();
    },
    spoil: async (name) => {
      const damaged = { "ci.ddupan.top/annotations-000": "damaged" };
      for (const { id } of await sandboxes(name)) await lab.resources.label(id, damaged, signal);
      await eventually("the backend sees that", async () =>
        (await backend.list(signal)).invalid.some((one) => one.name === name),
      );
    },
    now: () => clock.now(),
    // A server of a busy machine may take seconds to answer a create.
    lifeMs: 15_000,
    pass: (ms) => clock.sleep(ms, over.signal),
    running: async (name) =>
      (await sandboxes(name)).map(({ id }) => id).filter((id) => pool.vmOf(id)?.hasEnded() === false),
    remains: async (name) => [
      ...(await sandboxes(name)).map(({ id }) => `sandbox ${id}`),
      ...[...identity.bound].filter((bound) => bound === name).map((bound) => `identity of ${bound}`),
    ],
    [Symbol.asyncDispose]: async () => {
      over.abort(new Error("the world ends"));
      await Promise.allSettled(runs);
      api.close();
      await pool[Symbol.asyncDispose]();
      await lab.removeAll();
    },
  };
}

import { randomUUID } from "node:crypto";
import type { Executor } from "../../../../controller/backends/backend.ts";
import { filterFor } from "../../../../controller/backends/vm/sandbox-executor.ts";
import { createVmBackend, type VmBackend } from "../../../../controller/backends/vm/vm-backend.ts";
import type { VmBackendOptions, VmTimes } from "../../../../controller/backends/vm/vm-options.ts";
import { createHttpApi } from "../../../../controller/opensandbox/http-api.ts";
import { type Clock, systemClock, systemSteadyClock } from "../../../../controller/platform/clock.ts";
import {
  type FakeOpenSandbox,
  type FakeOpenSandboxOptions,
  startFakeOpenSandbox,
} from "../../../fakes/opensandbox/fake-opensandbox.ts";
import type { StoredSandbox } from "../../../fakes/opensandbox/stored-sandbox.ts";
import { createRecordingLogger, type RecordingLogger } from "../../../fakes/recording-logger.ts";
import type { BackendUnderTest } from "../../../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../../../support/builders.ts";
import { eventually } from "../../../support/eventually.ts";
import { createFakeVmIdentity, type FakeVmIdentity, shortVmTimes } from "../../../support/vm.ts";

export type VmWorld = BackendUnderTest & {
  readonly backend: VmBackend;
  readonly server: FakeOpenSandbox;
  readonly identity: FakeVmIdentity;
  readonly log: RecordingLogger;
  /** The key that our side has from now on. */
  setKey(key: string): void;
  /** A further backend over the same server; it looks after its VMs until the world ends. */
  another(overrides?: Partial<VmBackendOptions>): VmBackend;
  /** The sandboxes of an executor of the test's owner, oldest first. */
  sandboxes(name: string): readonly StoredSandbox[];
  /** The executor as the backend lists it now; undefined if it does not. */
  listed(name: string, from?: VmBackend): Promise<Executor | undefined>;
};

export type VmWorldOptions = {
  readonly backend?: Partial<Omit<VmBackendOptions, "times">>;
  readonly times?: Partial<VmTimes>;
  readonly server?: Partial<FakeOpenSandboxOptions>;
  /** Of the pool `ci-vm`. */
  readonly places?: number;
  /** Nothing is looked after by itself. */
  readonly isIdle?: boolean;
};

const { owner } = anExecutorMetadata();

/** A server with one pool, whose VMs are ready at once, and a backend that looks after them. */
export async function makeVmWorld(options: VmWorldOptions = {}): Promise<VmWorld> {
  // Node's timers hold no more than 24 days; a server's executors may live longer.
  const clock: Clock = {
    now: () => systemClock.now(),
    sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 2 ** 31 - 1), signal),
  };
  const server = await startFakeOpenSandbox({
    clock,
    createMs: 1_000,
    poolMs: 300,
    lifeSeconds: 10_000_000_000,
    ...options.server,
  });
  server.pools.open("ci-vm", options.places ?? 8);
  let { key } = server;
  const api = createHttpApi({
    url: server.url,
    key: () => Promise.resolve(key),
    requestId: randomUUID,
    clock,
  });
  const log = createRecordingLogger();
  const identity = createFakeVmIdentity();
  const over = new AbortController();
  const runs: Promise<unknown>[] = [];
  const begunAt = systemSteadyClock();
  const another = (overrides: Partial<VmBackendOptions> = {}) => {
    const backend = createVmBackend({
      api,
      identity,
      owner,
      trustDomain: testTrustDomain,
      pool: "ci-vm",
      times: { ...shortVmTimes, ...options.times },
      clock,
      // It counts from elsewhere than the time of day: whoever takes one for the other is found out.
      steady: () => systemSteadyClock() - begunAt,
      random: () => 0.5,
      log,
      ...options.backend,
      ...overrides,
    });
    if (options.isIdle !== true) runs.push(backend.run(over.signal));
    return backend;
  };
  const backend = another();
  const sandboxes = (name: string) =>
    server
      .sandboxes(filterFor(name, owner))
      .filter(({ labels }) => labels["ci.ddupan.top/nonce"]?.slice(0, 8) === name.slice(-8));

  return {
    backend,
    server,
    identity,
    log,
    another,
    sandboxes,
    setKey: (next) => {
      key = next;
    },
    forgetsKilled: true,
    namesPerOwner: true,
    listed: async (name, from = backend) => {
      const { executors } = await from.list(new AbortController().signal);
      return executors.find((executor) => executor.name === name);
    },
    restarted: async () => another(),
    ofOwner: async (other) => another({ owner: other }),
    makeBindable: async () => undefined,
    end: async (name) => {
      for (const { id } of sandboxes(name)) server.end(id);
    },
    spoil: async (name) => {
      for (const { id, labels } of sandboxes(name)) {
        const { "ci.ddupan.top/annotations-000": _, ...others } = labels;
        server.change(id, { labels: others });
      }
      const isSeen = async () =>
        (await backend.list(new AbortController().signal)).invalid.some((one) => one.name === name);
      if (options.isIdle !== true) await eventually("the backend sees that", isSeen, 30_000, 5);
    },
    now: () => clock.now(),
    pass: (ms) => clock.sleep(ms, over.signal),
    lifeMs: 5_000,
    running: async (name) =>
      sandboxes(name)
        .filter(({ vm }) => vm.kind === "ready")
        .map(({ id }) => id),
    remains: async (name) => [
      ...sandboxes(name).map(({ id }) => `sandbox ${id}`),
      ...[...identity.bound].filter((bound) => bound === name).map((bound) => `identity of ${bound}`),
    ],
    [Symbol.asyncDispose]: async () => {
      over.abort(new Error("the world ends"));
      await Promise.allSettled(runs);
      api.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

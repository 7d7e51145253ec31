import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { BackendError } from "../../../controller/backends/backend.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeBackend, createFakeBackendWorld } from "../../fakes/fake-backend.ts";
import { anExecutorRequest, type BackendUnderTest, describeBackend } from "../../support/backend-contract.ts";

for (const kind of ["pod", "vm"] as const) {
  describeBackend(`the fake ${kind} backend`, kind, async (): Promise<BackendUnderTest> => {
    const world = createFakeBackendWorld();
    const clock = createFakeClock();
    const backend = createFakeBackend({ kind, world, clock });
    return {
      backend,
      restarted: async () => createFakeBackend({ kind, world, clock }),
      ofOwner: async (owner) => createFakeBackend({ kind, owner, world, clock }),
      now: () => clock.now(),
      pass: (ms) => clock.step(ms),
      makeBindable: async () => undefined,
      end: async (name) => backend.end(name),
      spoil: async (name) => backend.spoil(name),
      running: async (name) => {
        const found = world.stored.get(name);
        return found === undefined || found.state.phase === "ended" ? [] : [name];
      },
      remains: async (name) => (world.stored.has(name) ? [name] : []),
      [Symbol.asyncDispose]: async () => undefined,
    };
  });
}

describe("what only the fake backend can do", () => {
  const { signal } = new AbortController();

  it("fails a call before or after its effect, once", async () => {
    const backend = createFakeBackend();
    const request = anExecutorRequest("pod");
    backend.failNext("create", new BackendError("retryable", "no answer"));
    backend.failNext("create", new BackendError("retryable", "answer lost"), { done: true });
    await assert.rejects(backend.create(request, signal), /no answer/);
    assert.equal(backend.world.stored.size, 0);
    await assert.rejects(backend.create(request, signal), /answer lost/);
    assert.equal(backend.world.stored.size, 1);
    const { name } = await backend.create(request, signal);
    assert.deepEqual(backend.called("create"), [name, name, name]);
    assert.deepEqual(backend.environmentOf(name), request.environment);
  });

  it("holds calls until they are let go", async () => {
    const backend = createFakeBackend();
    const release = backend.hold("create");
    const creating = backend.create(anExecutorRequest("pod"), signal);
    assert.equal((await backend.list(signal)).executors.length, 0);
    release();
    await creating;
    assert.equal((await backend.list(signal)).executors.length, 1);
  });

  it("starts executors late and binds them late if told so", async () => {
    const backend = createFakeBackend();
    backend.startsAtOnce = false;
    backend.bindable = false;
    const executor = await backend.create(anExecutorRequest("pod"), signal);
    assert.equal(executor.state.phase, "starting");
    assert.deepEqual(await backend.bindIdentity(executor, signal), { bound: false });
    backend.start(executor.name);
    assert.equal((await backend.list(signal)).executors[0]?.state.phase, "running");
    backend.vanish(executor.name);
    await assert.rejects(backend.bindIdentity(executor, signal), /is gone/);
  });
});

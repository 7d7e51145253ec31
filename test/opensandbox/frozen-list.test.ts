import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { afterEach, before, after, beforeEach, describe, it } from "mocha";
import { executorName, ownerLabel } from "../../controller/assignment/executor-metadata.ts";
import { BackendError, type ExecutorRequest } from "../../controller/backends/backend.ts";
import type { VmBackend } from "../../controller/backends/vm/vm-backend.ts";
import { createHttpApi } from "../../controller/opensandbox/http-api.ts";
import type { OpenSandboxApi } from "../../controller/opensandbox/opensandbox-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { anExecutorRequest, reaches } from "../support/backend-contract.ts";
import { eventually } from "../support/eventually.ts";
import { type FreezableServer, startFreezableServer } from "../support/opensandbox/frozen-server.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";
import { makeVmLab, type VmLabOptions, type VmLabWorld } from "./vm-lab.ts";

const { signal } = new AbortController();
const request: ExecutorRequest = anExecutorRequest("vm");
const again: ExecutorRequest = { ...request, mayBeUnderWay: true };
const nameOf = ({ metadata }: ExecutorRequest) => executorName(metadata.assignment, metadata.attempt);
const name = nameOf(request);
/** Within a create its view is made to stand still. */
const times = { createSeconds: 20, poolSeconds: 2, lifeSeconds: 10_000_000_000 };
/** Longer than any test here lets a view be old. */
const patient = { createWindowMs: 90_000, goneMs: 90_000 };

describe("VMs of a real OpenSandbox server whose view of them stands still while it answers", function () {
  this.timeout(500_000);
  const lab = useOpenSandbox(times);
  let frozen: FreezableServer;
  let world: VmLabWorld;

  before("start one more server", async () => {
    frozen = await startFreezableServer(lab, times, signal);
  });
  after(() => frozen?.[Symbol.asyncDispose]());
  beforeEach(() => frozen.thaw());
  afterEach(() => world[Symbol.asyncDispose]());

  const make = async (options: VmLabOptions = {}) => {
    const { url, key } = frozen.server;
    world = await makeVmLab(lab, { url, key: () => key, times: patient, ...options });
    return world;
  };
  const phase = async (backend: VmBackend) =>
    (await backend.list(signal)).executors.find((one) => one.name === name)?.state.phase;
  const alive = async () => (await world.running(name)).length;
  const isGone = () => eventually("it is gone", async () => (await world.sandboxes(name)).length === 0);

  it("are as they were while it stands still, and one that has ended is noticed afterwards", async () => {
    const { backend } = await make();
    await backend.create(request, signal);
    await reaches(backend, name, "running");
    await frozen.freeze();
    await world.end(name);
    await reads(backend);
    assert.equal(await phase(backend), "running");
    frozen.thaw();
    await reaches(backend, name, "ended");
    await backend.delete(name, signal);
    assert.deepEqual(await world.sandboxes(name), []);
    assert.equal(world.given(), 1);
  });

  it("hold their slot while they are shown as being deleted, and are deleted once", async () => {
    const { backend, pool } = await make();
    await backend.create(request, signal);
    pool.holdDeletions(true);
    const deleted = backend.delete(name, signal).then(() => "deleted");
    await eventually("it is being deleted", async () =>
      (await world.sandboxes(name)).some(({ isDeleted }) => isDeleted),
    );
    await frozen.freeze();
    pool.holdDeletions(false);
    await isGone();
    const looked = reads(backend).then(() => "looked again");
    assert.equal(await Promise.race([deleted, looked]), "looked again");
    assert.equal(await phase(backend), "running", "whoever asks for its slot has to wait");
    frozen.thaw();
    assert.equal(await deleted, "deleted");
    assert.equal(await phase(backend), undefined);
    assert.equal(world.given(), 1);
  });

  it("are never two of one attempt though a create does not see that its VM is ready", async () => {
    const { backend, pool } = await make();
    pool.holdPlaces(true);
    const created = backend.create(request, signal);
    created.catch(() => undefined);
    await eventually("it is asked for", async () => (await world.sandboxes(name)).length > 0);
    await frozen.freeze();
    pool.holdPlaces(false);
    await eventually("its VM is there", async () => (await alive()) === 1);
    await assert.rejects(created, refused("retryable", "no_vm"));
    await isGone();
    assert.deepEqual((await backend.list(signal)).executors, []);
    frozen.thaw();
    let most = 0;
    const isMade = async () => {
      most = Math.max(most, await alive());
      return backend.create(request, signal).then(
        () => true,
        (error: unknown) => !refused("retryable", "no_vm")(error),
      );
    };
    await eventually("it is made again", isMade, 180_000);
    await reaches(backend, name, "running");
    assert.equal(most, 0, "the first one was gone");
    assert.equal(await alive(), 1);
    assert.equal(world.given(), 2);
  });

  it("are made once when the list of whoever takes over lacks the one that there is", async () => {
    const first = lab.server;
    const { pool } = await make();
    await frozen.freeze();
    const straight = openApi(first.url, first.key);
    const { name: made } = await world.another({ api: straight }).create(request, signal);
    assert.equal(made, name);
    const next = world.another();
    assert.deepEqual((await next.list(signal)).executors, [], "its list is from before");
    const taken = next.create(again, signal);
    const looked = reads(next).then(() => "looked again");
    assert.equal(await Promise.race([taken, looked]), "looked again");
    frozen.thaw();
    assert.equal((await taken).name, name);
    await reaches(next, name, "running");
    assert.equal(pool.held().length, 1);
    assert.equal(world.given(), 1);
    straight.close();
  });

  it("are not taken for gone when a list that was right is followed by one from before", async () => {
    const straight = openApi(lab.server.url, lab.server.key);
    const old = frozen.api;
    let api = straight;
    const { pool } = await make();
    await frozen.freeze();
    const either: OpenSandboxApi = {
      ...straight,
      list: (...call) => api.list(...call),
      get: (...call) => api.get(...call),
    };
    const backend = world.another({ api: either });
    await backend.create(request, signal);
    await reaches(backend, name, "running");
    api = old;
    assert.deepEqual(await old.list({ [ownerLabel]: request.metadata.owner }, signal), []);
    await reads(backend);
    assert.equal(await phase(backend), "running");
    assert.deepEqual(pool.held().length, 1);
    api = straight;
    await backend.delete(name, signal);
    await isGone();
    assert.equal(world.given(), 1);
    straight.close();
  });

  it("are deleted later when a list from before hides them from whoever deletes, and none is left", async () => {
    const straight = openApi(lab.server.url, lab.server.key);
    await make();
    await frozen.freeze();
    await world.another({ api: straight }).create(request, signal);
    const next = world.another();
    await next.delete(name, signal);
    assert.equal(await alive(), 1, "nobody could know its id");
    frozen.thaw();
    await reaches(next, name, "running");
    await next.delete(name, signal);
    await isGone();
    assert.equal(world.given(), 1);
    straight.close();
  });
});

const key = (text: string) => () => Promise.resolve(text);
const openApi = (url: URL, text: string) =>
  createHttpApi({ url, key: key(text), requestId: randomUUID, clock: systemClock });

/** Waits until the backend has read often enough, for long enough, to take something for lost: see `labVmTimes`. */
async function reads(backend: VmBackend): Promise<void> {
  for (let time = 0; time < 4; time++) {
    const begun = systemClock.now();
    await eventually(
      "all are read again",
      () => systemClock.now() - begun > (backend.viewAgeMs() ?? Infinity) && systemClock.now() - begun > 500,
    );
  }
}

const refused = (kind: BackendError["kind"], reason: BackendError["reason"]) => (error: unknown) => {
  assert.ok(error instanceof BackendError, String(error));
  assert.deepEqual([error.kind, error.reason], [kind, reason], describeError(error));
  return true;
};

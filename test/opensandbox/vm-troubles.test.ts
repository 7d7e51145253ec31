import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { backendLabel, executorName, ownerLabel } from "../../controller/assignment/executor-metadata.ts";
import { BackendError, type ExecutorRequest } from "../../controller/backends/backend.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { anExecutorRequest, reaches } from "../support/backend-contract.ts";
import { anAttempt } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { startHeldRequests } from "../support/opensandbox/held-requests.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";
import { makeVmLab, type VmLabOptions, type VmLabWorld } from "./vm-lab.ts";

const { signal } = new AbortController();
const request: ExecutorRequest = anExecutorRequest("vm");
const again: ExecutorRequest = { ...request, mayBeUnderWay: true };
const second = anExecutorRequest("vm", {
  attempt: anAttempt({ number: 2, nonce: "00112233445566778899aabbccddeeff" }),
});
const nameOf = ({ metadata }: ExecutorRequest) => executorName(metadata.assignment, metadata.attempt);
const name = nameOf(request);
/** Longer than a server takes to start on a busy machine. */
const patient = { createWindowMs: 90_000 };

describe("VMs of a real OpenSandbox server in trouble", function () {
  this.timeout(300_000);
  const lab = useOpenSandbox({ createSeconds: 20, poolSeconds: 2, lifeSeconds: 10_000_000_000 });
  let world: VmLabWorld;
  afterEach(() => world[Symbol.asyncDispose]());

  const make = async (options: VmLabOptions = {}) => {
    world = await makeVmLab(lab, options);
    return world;
  };
  const asked = () => eventually("it is asked for", async () => (await world.sandboxes(name)).length > 0);
  const onlyOne = async () => {
    assert.equal((await world.sandboxes(name)).length, 1);
    assert.equal(world.given(), 1);
  };
  const refused = (kind: BackendError["kind"], reason: BackendError["reason"]) => (error: unknown) => {
    assert.ok(error instanceof BackendError, String(error));
    assert.deepEqual([error.kind, error.reason], [kind, reason], describeError(error));
    return true;
  };

  it("has one VM of a create that the server forgot when it was killed", async () => {
    const { backend, pool } = await make({ times: patient });
    pool.holdPlaces(true);
    const created = backend.create(request, signal);
    await asked();
    await lab.server.kill();
    await lab.server.component.start(signal);
    pool.holdPlaces(false);
    assert.equal((await created).name, name);
    await reaches(backend, name, "running");
    await onlyOne();
  });

  it("has one VM when its controller ends before the answer, and the next one takes over", async () => {
    const { backend, pool } = await make();
    pool.holdPlaces(true);
    const killed = new AbortController();
    const created = backend.create(request, killed.signal);
    await asked();
    killed.abort(new Error("killed"));
    await assert.rejects(created, /killed/);
    const taken = world.another().create(again, signal);
    pool.holdPlaces(false);
    assert.equal((await taken).name, name);
    await onlyOne();
  });

  it("has one VM of a create that reaches the server only after a takeover", async () => {
    await using way = await startHeldRequests(lab.server.url);
    const { backend } = await make({ url: way.url });
    const held = way.hold();
    const killed = new AbortController();
    const created = backend.create(request, killed.signal);
    await held;
    killed.abort(new Error("killed"));
    await assert.rejects(created, /killed/);
    const taken = world.another().create(again, signal);
    way.release();
    assert.equal((await taken).name, name);
    await onlyOne();
  });

  it("gives up an attempt of which nobody can tell, and removes what comes of it later", async () => {
    await using way = await startHeldRequests(lab.server.url);
    const { backend } = await make({ url: way.url, times: { createWindowMs: 500 } });
    const held = way.hold();
    const killed = new AbortController();
    const created = backend.create(request, killed.signal);
    await held;
    killed.abort(new Error("killed"));
    await assert.rejects(created, /killed/);
    const next = world.another();
    await assert.rejects(next.create(again, signal), refused("terminal", "backend_down"));
    way.release();
    await asked();
    await next.delete(name, signal);
    await eventually("it is gone", async () => (await world.sandboxes(name)).length === 0);
  });

  it("waits for a pool that is full, and has its VM when a place is free", async () => {
    const { backend } = await make({ capacity: 1 });
    await backend.create(request, signal);
    await assert.rejects(backend.create(second, signal), refused("retryable", "no_vm"));
    await backend.delete(name, signal);
    await eventually(
      "there is a place again",
      () =>
        backend.create(second, signal).then(
          () => true,
          (error: unknown) => !refused("retryable", "no_vm")(error),
        ),
      120_000,
      500,
    );
    await reaches(backend, nameOf(second), "running");
    assert.equal(world.pool.held().length, 1);
  });

  it("asks for nothing while the pool does not exist, and says so loudly", async () => {
    await make();
    const lost = world.another({ pool: "not-there" });
    await assert.rejects(lost.create(request, signal), refused("retryable", undefined));
    assert.ok(
      world.log.lines.some(
        ({ level, message }) => level === "error" && /pool .* does not exist/.test(message),
      ),
    );
    assert.deepEqual(await world.sandboxes(name), []);
  });

  it("can do nothing with a wrong key, takes nobody for gone, and goes on with the right one", async () => {
    let key = lab.server.key;
    const { backend } = await make({ key: () => key });
    await backend.create(request, signal);
    key = "wrong";
    await assert.rejects(backend.create(second, signal), refused("retryable", undefined));
    await assert.rejects(backend.delete(name, signal), refused("retryable", undefined));
    const line = await world.log.line("the sandbox server refuses our key, no vm can be made or seen");
    assert.equal(line.level, "error");
    assert.ok(!world.log.text().includes(lab.server.key));
    key = lab.server.key;
    await reaches(backend, name, "running");
    await backend.create(second, signal);
    assert.equal(world.given(), 2);
  });

  it("takes nobody for gone while the server cannot read its store", async () => {
    const { backend } = await make();
    await backend.create(request, signal);
    const { apiServer } = lab.apiServer.components;
    await apiServer.stop();
    try {
      await assert.rejects(world.another().list(signal), refused("retryable", undefined));
    } finally {
      await apiServer.start(signal);
    }
    await reaches(backend, name, "running");
    await onlyOne();
  });

  it("lists all that stays though there is more than a page holds, and some of it goes meanwhile", async () => {
    const { backend } = await make();
    await backend.create(request, signal);
    const labels = { [ownerLabel]: request.metadata.owner, [backendLabel]: "vm" };
    const strays = Array.from({ length: 220 }, (_, number) => `stray-${number}`);
    for (const id of strays) await lab.resources.make(id, "none", labels, signal);
    const going = Promise.all(strays.slice(0, 100).map((id) => lab.resources.remove(id, signal)));
    const { executors, invalid } = await world.another().list(signal);
    assert.deepEqual(
      executors.map((one) => one.name),
      [name],
    );
    const listed = new Set(invalid.map((one) => one.name));
    assert.deepEqual(
      strays.slice(100).filter((id) => !listed.has(id)),
      [],
    );
    await going;
  });
});

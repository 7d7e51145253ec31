import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { executorName } from "../../../../controller/assignment/executor-metadata.ts";
import { BackendError, type ExecutorRequest } from "../../../../controller/backends/backend.ts";
import { systemSteadyClock } from "../../../../controller/platform/clock.ts";
import { describeError } from "../../../../controller/platform/errors.ts";
import { anExecutorRequest, reaches } from "../../../support/backend-contract.ts";
import { anAttempt } from "../../../support/builders.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeVmWorld, type VmWorld, type VmWorldOptions } from "./vm-world.ts";

const { signal } = new AbortController();
const request: ExecutorRequest = anExecutorRequest("vm");
const again: ExecutorRequest = { ...request, mayBeUnderWay: true };
const name = executorName(request.metadata.assignment, request.metadata.attempt);
const capability = request.environment.CI_RUNNER_CAPABILITY;

const refused =
  (kind: BackendError["kind"], reason: BackendError["reason"], words = /./) =>
  (error: unknown) => {
    assert.ok(error instanceof BackendError, String(error));
    assert.deepEqual([error.kind, error.reason], [kind, reason], error.message);
    assert.match(describeError(error), words);
    assert.ok(!describeError(error).includes(capability));
    return true;
  };

describe("a VM that is asked for", () => {
  const open: VmWorld[] = [];
  afterEach(async () => {
    for (const world of open.splice(0)) {
      assert.ok(!world.log.text().includes(capability), "no secret is logged");
      await world[Symbol.asyncDispose]();
    }
  });
  async function aWorld(options: VmWorldOptions = {}): Promise<VmWorld> {
    const world = await makeVmWorld(options);
    open.push(world);
    return world;
  }
  const posts = ({ server }: VmWorld) => server.count("create");

  it("B-60 comes from the pool, with labels, annotations, environment and an end of its own", async () => {
    const world = await aWorld();
    const deadlineAt = world.now() + 3_600_000;
    await world.backend.create({ ...request, deadlineAt }, signal);
    const call = world.server.calls.find(({ verb }) => verb === "create");
    const body = JSON.parse(call?.text ?? "");
    assert.deepEqual(Object.keys(body).toSorted(), [
      "entrypoint",
      "env",
      "extensions",
      "metadata",
      "timeout",
    ]);
    assert.deepEqual(body.extensions, { poolRef: "ci-vm" });
    assert.deepEqual(body.entrypoint, ["gitea-opensandbox-runner"]);
    assert.deepEqual(body.env, {
      ...request.environment,
      SPIFFE_ENDPOINT_SOCKET: "unix:///run/guest/agent.sock",
    });
    assert.ok(body.timeout >= 3_600 + 110 && body.timeout <= 3_600 + 121, String(body.timeout));
    const { metadata } = body;
    assert.equal(metadata["ci.ddupan.top/backend"], "vm");
    assert.equal(metadata["ci.ddupan.top/nonce"], request.metadata.attempt.nonce);
    assert.equal(metadata["ci.ddupan.top/deadline-at"], String(deadlineAt));
    assert.match(metadata["ci.ddupan.top/annotation-chunks"], /^[1-9]/);
    assert.deepEqual(
      world.identity.calls.filter((each) => each.startsWith("prepare")),
      [`prepare ${name}`],
    );
  });

  it("is never asked for when its annotations are too long, which the error says", async () => {
    const world = await aWorld({ isIdle: true });
    const spiffeId = `spiffe://example.org/ci/${"x".repeat(3_000)}`;
    const tooLong = anExecutorRequest("vm", { assignment: { spiffeId } });
    await assert.rejects(
      world.backend.create(tooLong, signal),
      refused("terminal", "config_error", /too long.*spiffe-id alone has 30/),
    );
    assert.deepEqual(world.server.calls, []);
  });

  describe("without an answer", () => {
    it("is found, and made once", async () => {
      const world = await aWorld();
      world.server.failNext("create", "lost answer");
      assert.equal((await world.backend.create(request, signal)).name, name);
      assert.equal(world.sandboxes(name).length, 1);
      assert.equal(posts(world), 1);
    });

    it("is found by the next call when nobody waited for the first one", async () => {
      const world = await aWorld();
      const held = world.server.holdNext("create", "before");
      const stop = new AbortController();
      const first = world.backend.create(request, stop.signal);
      await held.arrived;
      stop.abort(new Error("its task is cancelled"));
      await assert.rejects(first, /its task is cancelled/);
      const second = world.backend.create(again, signal);
      await eventually("it is looked for", () => world.server.count("list") > 5, 30_000, 5);
      held.release();
      assert.equal((await second).name, name);
      assert.equal(world.sandboxes(name).length, 1);
      assert.equal(posts(world), 1);
    });

    it("is given up after the time in which it may come, and not asked for again: another attempt is", async () => {
      const world = await aWorld({ times: { createWindowMs: 200 } });
      world.server.failNext("create", "hang up");
      await assert.rejects(world.backend.create(request, signal), refused("terminal", "backend_down"));
      await assert.rejects(world.backend.create(again, signal), refused("terminal", "backend_down"));
      assert.equal(posts(world), 1);
      const next = await world.backend.create(
        anExecutorRequest("vm", { attempt: anAttempt({ number: 2 }) }),
        signal,
      );
      assert.equal(next.metadata.attempt.number, 2);
      assert.equal(posts(world), 2);
    });

    it("may exist as long as the server does not say what there is, and is found then", async () => {
      const world = await aWorld({ times: { createWindowMs: 100 } });
      world.server.pools.open("ci-vm", 8, { bootMs: 50 });
      world.server.failNext("create", "lost answer");
      const creating = world.backend.create(request, signal);
      const [, { id }] = await Promise.all([
        assert.rejects(creating, refused("retryable", undefined, /may exist: .*SANDBOX_LIST_UNAVAILABLE/)),
        world.server.asked({ "ci.ddupan.top/task-id": "42" }).then((sandbox) => {
          world.server.setStoreAway(true);
          return sandbox;
        }),
      ]);
      world.server.setStoreAway(false);
      assert.equal((await world.backend.create(again, signal)).name, name);
      assert.deepEqual(
        world.sandboxes(name).map((sandbox) => sandbox.id),
        [id],
      );
      assert.equal(posts(world), 1);
    });
  });

  describe("after a restart of the controller", () => {
    it("is waited for where the old one may have asked for it, and made once though it comes late", async () => {
      const world = await aWorld();
      const held = world.server.holdNext("create", "before");
      const stop = new AbortController();
      const old = world.backend.create(request, stop.signal);
      await held.arrived;
      stop.abort(new Error("the controller is killed"));
      await assert.rejects(old, /killed/);
      const next = world.another();
      const found = next.create(again, signal);
      const lists = world.server.count("list");
      await eventually("it is looked for", () => world.server.count("list") > lists + 5, 30_000, 5);
      held.release();
      assert.equal((await found).name, name);
      assert.equal(world.sandboxes(name).length, 1);
      assert.equal(posts(world), 1);
    });

    it("is a lost attempt's when it comes later still: listed, so that it is deleted", async () => {
      const world = await aWorld({ times: { createWindowMs: 200 } });
      const held = world.server.holdNext("create", "before");
      const stop = new AbortController();
      const old = world.backend.create(request, stop.signal);
      await held.arrived;
      stop.abort(new Error("the controller is killed"));
      await assert.rejects(old, /killed/);
      const next = world.another();
      await assert.rejects(next.create(again, signal), refused("terminal", "backend_down"));
      held.release();
      const late = await reaches(next, name, "running");
      assert.equal(late.metadata.attempt.number, 1);
      assert.equal(posts(world), 1);
      await next.delete(name, signal);
      assert.deepEqual(await world.remains(name), []);
    });

    it("is asked for at once where nobody can have asked before", async () => {
      const world = await aWorld({ times: { createWindowMs: 3_600_000 } });
      assert.equal((await world.another().create(request, signal)).name, name);
    });

    it("goes on when the server dies while it makes it", async () => {
      const world = await aWorld();
      world.server.pools.open("ci-vm", 8, { bootMs: 300 });
      const creating = world.backend.create(request, signal);
      await world.server.asked({ "ci.ddupan.top/task-id": "42" });
      world.server.restart();
      assert.equal((await creating).name, name);
      await reaches(world.backend, name, "running");
      assert.equal(world.sandboxes(name).length, 1);
    });
  });

  describe("where the pool has no place", () => {
    it("waits without burning an attempt, and comes when a place is free", async () => {
      // The time for which the server wants to be left alone does not go by until we say so.
      const beganAt = systemSteadyClock();
      let isLeftAlone = true;
      const steady = () => (isLeftAlone ? beganAt : systemSteadyClock());
      const world = await aWorld({ places: 1, server: { poolMs: 100 }, backend: { steady } });
      const first = await world.backend.create(
        anExecutorRequest("vm", { assignment: { taskId: 7n } }),
        signal,
      );
      await assert.rejects(world.backend.create(request, signal), refused("retryable", "no_vm"));
      assert.deepEqual(world.sandboxes(name), []);
      const asked = posts(world);
      await assert.rejects(
        world.backend.create(again, signal),
        refused("retryable", "no_vm", /asked again in/),
      );
      assert.equal(posts(world), asked, "the server has said when to come again");
      isLeftAlone = false;
      await world.backend.delete(first.name, signal);
      const comes = async () => {
        try {
          return (await world.backend.create(again, signal)).name === name;
        } catch (error) {
          return !refused("retryable", "no_vm")(error);
        }
      };
      await eventually("it is made", comes, 50_000);
    });

    it("leaves nothing behind though the server fails to take it back", async () => {
      const world = await aWorld({ server: { createMs: 100 } });
      world.server.pools.open("ci-vm", 8, { boot: "never" });
      world.server.failRollbacks(true);
      await assert.rejects(world.backend.create(request, signal), refused("retryable", "no_vm"));
      assert.deepEqual(world.sandboxes(name), []);
      assert.equal(await world.listed(name), undefined);
    });

    it("is not asked for more often at once than there are places", async () => {
      const world = await aWorld({ places: 2 });
      world.server.pools.open("ci-vm", 2, { bootMs: 100 });
      const outcomes = await Promise.allSettled(
        [1n, 2n, 3n, 4n].map((taskId) =>
          world.backend.create(anExecutorRequest("vm", { assignment: { taskId } }), signal),
        ),
      );
      assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 2);
      assert.equal(posts(world), 2);
    });
  });

  it("waits, loudly, while there is no such pool, and comes when there is", async () => {
    const world = await aWorld();
    world.server.pools.remove("ci-vm");
    const after = world.log.lines.length;
    await assert.rejects(
      world.backend.create(request, signal),
      refused("retryable", undefined, /does not exist/),
    );
    assert.equal(
      (await world.log.line("the pool of vms does not exist, none can be made", after)).level,
      "error",
    );
    assert.equal(posts(world), 0);
    world.server.pools.open("ci-vm", 1);
    assert.equal((await world.backend.create(again, signal)).name, name);
  });

  it("waits when the pool goes between the question and the create", async () => {
    const world = await aWorld();
    const held = world.server.holdNext("create", "before");
    const creating = world.backend.create(request, signal);
    await held.arrived;
    world.server.pools.remove("ci-vm");
    held.release();
    await assert.rejects(creating, refused("retryable", undefined, /POOL_NOT_FOUND/));
    world.server.pools.open("ci-vm", 1);
    assert.equal((await world.backend.create(again, signal)).name, name);
  });

  it("is lost when its VM fails, and leaves nothing behind", async () => {
    const world = await aWorld();
    world.server.pools.open("ci-vm", 8, { boot: "fails" });
    await assert.rejects(
      world.backend.create(request, signal),
      refused("terminal", "start_failed", /POD_FAILED/),
    );
    assert.deepEqual(world.sandboxes(name), []);
  });

  it("is refused for good when the server refuses what is asked for", async () => {
    const world = await aWorld({ server: { lifeSeconds: 600 } });
    await assert.rejects(world.backend.create(request, signal), refused("terminal", "config_error", /400/));
    assert.equal(posts(world), 1);
  });

  it("is not asked for when its identity cannot be prepared", async () => {
    const world = await aWorld();
    world.identity.failNext("prepare");
    await assert.rejects(world.backend.create(request, signal), refused("retryable", "identity"));
    assert.equal(posts(world), 0);
    await world.backend.create(again, signal);
    assert.equal(posts(world), 1);
  });

  it("waits, loudly, while the key is wrong, and comes when it is right", async () => {
    const world = await aWorld();
    world.setKey("another-key-than-the-server-s");
    await assert.rejects(world.backend.create(request, signal), refused("retryable", undefined, /401/));
    const line = await world.log.line("the sandbox server refuses our key, no vm can be made or seen");
    assert.equal(line.level, "error");
    assert.equal(posts(world), 0);
    world.setKey(world.server.key);
    assert.equal((await world.backend.create(again, signal)).name, name);
    assert.ok(!world.log.text().includes("another-key"));
  });
});

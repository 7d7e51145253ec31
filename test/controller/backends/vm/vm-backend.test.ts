import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { executorName } from "../../../../controller/assignment/executor-metadata.ts";
import { failureFor } from "../../../../controller/assignment/failure.ts";
import { BackendError, type ExecutorRequest } from "../../../../controller/backends/backend.ts";
import { sandboxMetadata } from "../../../../controller/backends/vm/sandbox-executor.ts";
import { type Clock, systemClock } from "../../../../controller/platform/clock.ts";
import { describeError } from "../../../../controller/platform/errors.ts";
import { anExecutorRequest, reaches } from "../../../support/backend-contract.ts";
import { eventually } from "../../../support/eventually.ts";
import type { StoredSandbox } from "../../../fakes/opensandbox/stored-sandbox.ts";
import { makeVmWorld, type VmWorld, type VmWorldOptions } from "./vm-world.ts";

const { signal } = new AbortController();
const request: ExecutorRequest = anExecutorRequest("vm");
const name = executorName(request.metadata.assignment, request.metadata.attempt);

const refused =
  (kind: BackendError["kind"], words: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof BackendError, String(error));
    assert.equal(error.kind, kind);
    assert.match(describeError(error), words);
    return true;
  };

describe("VMs of an OpenSandbox server", () => {
  const open: VmWorld[] = [];
  afterEach(async () => {
    for (const world of open.splice(0)) await world[Symbol.asyncDispose]();
  });
  async function aWorld(options: VmWorldOptions = {}): Promise<VmWorld> {
    const world = await makeVmWorld(options);
    open.push(world);
    return world;
  }
  /** A world with one executor; its sandbox's id. */
  async function running(
    options: VmWorldOptions = {},
  ): Promise<{ readonly world: VmWorld; readonly id: string }> {
    const world = await aWorld(options);
    await world.backend.create(request, signal);
    const [sandbox] = world.sandboxes(name);
    assert.ok(sandbox !== undefined);
    return { world, id: sandbox.id };
  }
  const phase = async (world: VmWorld) => (await world.listed(name))?.state.phase;
  /** So many lists more have been answered. */
  const lists = async ({ server }: VmWorld, count: number) => {
    const before = server.count("list");
    await eventually("it is listed again", () => server.count("list") > before + count, 30_000, 5);
  };

  describe("are known though the server's lists are wrong", () => {
    it("B-63 when a list is suddenly empty: that is no proof", async () => {
      const { world, id } = await running();
      world.server.freeze("lists", []);
      await lists(world, 10);
      assert.equal(await phase(world), "running");
      assert.equal((await world.backend.create(request, signal)).name, name);
      assert.equal(world.server.count("create"), 1);
      world.server.remove(id);
      world.server.release(id);
      const { state } = await reaches(world.backend, name, "ended");
      assert.equal(state.cause, "vanished");
    });

    it("when another server answers for a while, which knows none of them", async () => {
      const { world, id } = await running();
      world.server.freeze("reads", []);
      assert.equal((await reaches(world.backend, name, "ended")).state.cause, "vanished");
      world.server.thaw();
      await reaches(world.backend, name, "running");
      await world.backend.delete(name, signal);
      assert.equal(world.server.sandbox(id), undefined);
    });

    it("when one was killed while another server answered: it runs, and can be killed", async () => {
      const { world, id } = await running({ times: { lagMs: 60_000 } });
      world.server.freeze("reads", []);
      await world.backend.kill(name, "it is silent", signal);
      assert.equal(await phase(world), "ended");
      world.server.thaw();
      await reaches(world.backend, name, "running");
      await world.backend.kill(name, "it is silent", signal);
      assert.equal(world.server.sandbox(id), undefined);
      assert.equal(await phase(world), "ended");
    });

    it("when one was deleted while another server answered: it was never told, and it is there again", async () => {
      const { world, id } = await running();
      world.server.freeze("reads", []);
      await reaches(world.backend, name, "ended");
      await world.backend.delete(name, signal);
      assert.equal(await phase(world), undefined);
      world.server.thaw();
      await reaches(world.backend, name, "running");
      await world.backend.delete(name, signal);
      assert.equal(world.server.sandbox(id), undefined);
      await lists(world, 3);
      assert.equal(await phase(world), undefined);
    });

    it("when a frozen list shows as running what has ended", async () => {
      const { world, id } = await running();
      await lists(world, 1);
      world.server.freeze("lists");
      world.server.end(id);
      assert.match(
        (await reaches(world.backend, name, "ended")).state.reason,
        /its VM has ended or was lost/,
      );
    });

    it("when a frozen list shows what was deleted", async () => {
      const { world } = await running();
      world.server.freeze("lists");
      await world.backend.delete(name, signal);
      await lists(world, 5);
      assert.equal(await phase(world), undefined);
    });

    it("when a frozen list lacks what has just been made", async () => {
      const world = await aWorld();
      world.server.freeze("lists");
      await world.backend.create(request, signal);
      await lists(world, 10);
      assert.equal(await phase(world), "running");
    });

    it("when there is no list: what is known stays, and an old view is not handed out", async () => {
      const { world } = await running({ times: { staleMs: 3_000 } });
      world.server.setStoreAway(true);
      assert.equal(await phase(world), "running");
      await eventually("the view is old", () => (world.backend.viewAgeMs() ?? 0) > 3_000, 30_000, 5);
      await assert.rejects(world.backend.list(signal), refused("retryable", /SANDBOX_LIST_UNAVAILABLE/));
      world.server.setStoreAway(false);
      await lists(world, 1);
      assert.equal(await phase(world), "running");
      assert.ok((await world.log.line("listing sandboxes failed")).level === "warn");
    });

    it("B-63 on every page, also while one is deleted between two of them", async function () {
      this.timeout(240_000);
      const world = await aWorld({ places: 500 });
      const requests = Array.from({ length: 205 }, (_, index) =>
        anExecutorRequest("vm", { assignment: { taskId: BigInt(1_000 + index) } }),
      );
      for (const [index, one] of requests.entries()) {
        const createdAt = world.now() - index * 1_000;
        const labels = sandboxMetadata(one, createdAt);
        world.server.put({ createdAt, labels, vm: { kind: "ready" }, hasPlace: true, isHeld: true });
      }
      const restarted = world.another();
      assert.equal((await restarted.list(signal)).executors.length, 205);
      const second = world.server.holdNext((call) => call.query.get("page") === "2", "before");
      await second.arrived;
      const [first] = world.server.sandboxes();
      assert.ok(first !== undefined);
      world.server.remove(first.id);
      world.server.release(first.id);
      second.release();
      const isNoticed = async () => {
        const { executors } = await restarted.list(signal);
        const living = executors.filter(({ state }) => state.phase === "running");
        assert.ok(living.length >= 204, `${living.length} of 204 are known`);
        return living.length === 204;
      };
      await eventually("that one is gone is noticed", isNoticed, 180_000, 20);
      await lists(world, 2);
      assert.ok(await isNoticed());
    });
  });

  it("B-63 reports one that cannot be read with its sandbox's id, and another owner's never", async () => {
    const world = await aWorld();
    const labels = sandboxMetadata(request, world.now());
    const nameless = { ...labels, "ci.ddupan.top/nonce": "x", "ci.ddupan.top/backend": "?" };
    const foreign = { ...nameless, "ci.ddupan.top/owner": "somebody-else" };
    const { id } = world.server.put({ labels: nameless, vm: { kind: "ready" }, hasPlace: true });
    const { id: other } = world.server.put({ labels: foreign, vm: { kind: "ready" }, hasPlace: true });
    const { executors, invalid } = await world.another().list(signal);
    assert.deepEqual(executors, []);
    assert.deepEqual(
      invalid.map((one) => one.name),
      [id],
    );
    assert.match(invalid[0]?.reason ?? "", new RegExp(`^sandbox ${id}: ci\\.ddupan\\.top/`));
    await world.backend.delete(id, signal);
    assert.equal(world.server.sandbox(id), undefined);
    await world.backend.delete(other, signal);
    assert.notEqual(world.server.sandbox(other), undefined);
  });

  it("keep their executor's name when their labels are damaged, so that nobody takes it for gone", async () => {
    const { world, id } = await running();
    world.server.change(id, { labels: { "ci.ddupan.top/owner": request.metadata.owner } });
    await eventually(
      "that is seen",
      async () => (await world.backend.list(signal)).invalid.length > 0,
      30_000,
      5,
    );
    const { invalid } = await world.backend.list(signal);
    assert.deepEqual(
      invalid.map((one) => one.name),
      [name],
    );
  });

  it("stay what they were when somebody writes other metadata on them: that is reported, and ends no other", async () => {
    const { world, id } = await running();
    const other = anExecutorRequest("vm", { assignment: { taskId: 77n } });
    const { name: otherName } = await world.backend.create(other, signal);
    const [victim] = world.sandboxes(otherName);
    assert.ok(victim !== undefined);
    const own = world.server.sandbox(id)?.labels ?? {};
    const reported = async (labels: StoredSandbox["labels"]) => {
      world.server.change(id, { labels });
      await eventually(
        "it is seen",
        async () => (await world.backend.list(signal)).invalid.length === 1,
        30_000,
        5,
      );
      await lists(world, 5);
      const { executors, invalid } = await world.backend.list(signal);
      assert.deepEqual(
        [executors.map((one) => one.name), invalid.map((one) => one.name)],
        [[otherName], [name]],
      );
      assert.match(invalid[0]?.reason ?? "", new RegExp(id));
      assert.equal(world.server.count("delete"), 0);
    };
    await reported(victim.labels);
    await reported({ ...own, "ci.ddupan.top/attempt": "2" });
    world.server.change(id, { labels: own });
    await reaches(world.backend, name, "running");
  });

  it("are as old as the server says, and end when we have said, whatever somebody writes on them", async () => {
    const { world, id } = await running();
    const { createdAt = 0, labels: own = {} } = world.server.sandbox(id) ?? {};
    const times = { "ci.ddupan.top/asked-at": "1", "ci.ddupan.top/deadline-at": "1" };
    world.server.change(id, { labels: { ...own, ...times } });
    await lists(world, 10);
    assert.equal(await phase(world), "running");
    world.server.change(id, { labels: { ...own, ...times, "ci.ddupan.top/task-id": "x" } });
    const [invalid] = (await world.another().list(signal)).invalid;
    assert.ok(Math.abs((invalid?.createdAt ?? 0) - createdAt) < 5_000, String(invalid?.createdAt));
  });

  describe("when the time of day is set", () => {
    let setMs = 0;
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + setMs };
    const set = (ms: number) => {
      setMs = ms;
    };
    beforeEach(() => set(0));

    it("run on when it is set forward past their deadline", async () => {
      const world = await aWorld({ backend: { clock } });
      const deadlineAt = world.now() + 3_600_000;
      await world.backend.create({ ...request, deadlineAt }, signal);
      set(7_200_000);
      await lists(world, 10);
      assert.equal(await phase(world), "running");
      assert.equal(world.server.count("delete"), 0);
    });

    it("end at their deadline though it is set back", async () => {
      const world = await aWorld({ backend: { clock } });
      await world.backend.create({ ...request, deadlineAt: world.now() + 5_000 }, signal);
      set(-3_600_000);
      const { state } = await reaches(world.backend, name, "ended");
      assert.equal(state.cause, "deadline");
    });

    it("are waited for as long as before when it is set forward while they start", async () => {
      const times = { createWindowMs: 10_000 };
      const world = await aWorld({ backend: { clock }, times, places: 0 });
      const { id } = world.server.put({
        labels: sandboxMetadata(request, world.now()),
        createdAt: world.now(),
        vm: { kind: "none" },
      });
      await reaches(world.backend, name, "starting");
      set(3_600_000);
      await lists(world, 20);
      assert.equal(await phase(world), "starting");
      world.server.give(id);
      await reaches(world.backend, name, "running");
    });
  });

  it("are left alone when they are somebody else's now, also by a delete that knows them still", async () => {
    const { world, id } = await running({ isIdle: true });
    await world.backend.list(signal);
    world.server.change(id, {
      labels: { ...world.server.sandbox(id)?.labels, "ci.ddupan.top/owner": "somebody-else" },
    });
    await assert.rejects(world.backend.delete(name, signal), refused("terminal", /is not ours/));
    assert.equal(world.server.count("delete"), 0);
    assert.equal(await phase(world), undefined);
    assert.ok(await world.log.line("executor has lost its owner's label, and is left alone from now on"));
  });

  it("of two owners with equal task ids and names are each owner's own", async () => {
    const { world } = await running();
    const stranger = world.another({ owner: "somebody-else" });
    const theirs = anExecutorRequest("vm", { owner: "somebody-else" });
    assert.equal((await stranger.create(theirs, signal)).name, name);
    assert.equal(world.server.sandboxes().length, 2);
    await lists(world, 10);
    assert.equal(world.server.sandboxes().length, 2, "nobody takes them for twins");
    await stranger.kill(name, "over", signal);
    await stranger.delete(name, signal);
    assert.equal(await phase(world), "running");
    assert.equal(world.sandboxes(name).length, 1);
  });

  describe("that are there twice", () => {
    const twin = (world: VmWorld, ageMs: number) =>
      world.server.put({
        labels: sandboxMetadata(request, world.now() - ageMs),
        createdAt: world.now() - ageMs,
        vm: { kind: "ready" },
        hasPlace: true,
      });

    it("I1 become one: the one that was handed out stays, though it is the younger", async () => {
      const { world, id } = await running();
      const other = twin(world, 60_000);
      await eventually("it is gone", () => world.server.sandbox(other.id) === undefined, 30_000, 5);
      assert.equal(await phase(world), "running");
      assert.notEqual(world.server.sandbox(id), undefined);
      assert.equal((await world.backend.list(signal)).executors.length, 1);
    });

    it("I1 become one after a restart: the oldest stays", async () => {
      const world = await aWorld();
      const [younger, older] = [twin(world, 1_000), twin(world, 60_000)];
      await eventually("one is gone", () => world.server.sandboxes().length === 1, 30_000, 5);
      assert.notEqual(world.server.sandbox(older.id), undefined);
      assert.equal(world.server.sandbox(younger.id), undefined);
    });

    it("are all ended by a kill, and all removed by a delete", async () => {
      for (const act of ["kill", "delete"] as const) {
        const { world } = await running({ isIdle: true });
        twin(world, 0);
        await world.another().list(signal);
        const fresh = world.another();
        await (act === "kill" ? fresh.kill(name, "over", signal) : fresh.delete(name, signal));
        assert.deepEqual(world.sandboxes(name), []);
      }
    });
  });

  describe("B-65 are marked when their task is over", () => {
    it("by one added key, of which the answer is looked at", async () => {
      const { world } = await running();
      await world.backend.markTerminal(name, signal);
      const patch = world.server.calls.find(({ verb }) => verb === "patch");
      assert.deepEqual(JSON.parse(patch?.text ?? ""), { "ci.ddupan.top/terminal": "true" });
      assert.equal((await world.listed(name))?.metadata.terminal, true);
    });

    it("again if the answer does not have it", async () => {
      const { world, id } = await running();
      const { labels } = world.server.sandbox(id) ?? {};
      const body = {
        id,
        status: { state: "Running" },
        metadata: labels,
        createdAt: new Date().toISOString(),
      };
      world.server.failNext("patch", { status: 200, body });
      await assert.rejects(world.backend.markTerminal(name, signal), refused("retryable", /does not have/));
      await world.backend.markTerminal(name, signal);
      assert.equal(world.server.sandbox(id)?.labels["ci.ddupan.top/terminal"], "true");
    });

    it("by one change at a time, so that none undoes the other", async () => {
      const { world, id } = await running();
      world.server.hold(id);
      const held = world.server.holdNext("patch", "within");
      const marking = world.backend.markTerminal(name, signal);
      await held.arrived;
      const stop = new AbortController();
      const killing = world.backend.kill(name, "no claim, in time!", stop.signal);
      await lists(world, 5);
      assert.equal(world.server.count("patch"), 1);
      held.release();
      await marking;
      await eventually("it is deleted", () => world.server.count("delete") === 1, 30_000, 5);
      stop.abort(new Error("enough"));
      await assert.rejects(killing, /enough/);
      const { labels = {} } = world.server.sandbox(id) ?? {};
      assert.equal(labels["ci.ddupan.top/terminal"], "true");
      assert.equal(labels["ci.ddupan.top/killed-for"], "no-claim-in-time");
    });

    it("and stay so though a list shows them as they were", async () => {
      const { world } = await running();
      world.server.freeze("lists");
      await world.backend.markTerminal(name, signal);
      await lists(world, 5);
      assert.equal((await world.listed(name))?.metadata.terminal, true);
    });
  });

  describe("B-52 are deleted", () => {
    it("after their identity is taken away, and until the server knows none", async () => {
      const { world, id } = await running();
      await world.backend.bindIdentity((await world.listed(name))!, signal);
      world.server.hold(id);
      const deleting = world.backend.delete(name, signal);
      await eventually("it is stopping", () => world.server.sandbox(id)?.isDeleting === true, 30_000, 5);
      assert.ok(!world.identity.bound.has(name), "the identity goes first");
      assert.equal(await phase(world), "running", "it may still run");
      world.server.release(id);
      await deleting;
      assert.deepEqual(await world.remains(name), []);
      assert.equal(world.server.count("delete"), 1);
    });

    for (const act of ["kill", "delete"] as const)
      it(`without their identity though the server does not answer: ${act}`, async () => {
        const { world } = await running({ isIdle: true, times: { staleMs: 0 } });
        await world.backend.bindIdentity((await world.listed(name))!, signal);
        world.server.setStoreAway(true);
        const acting =
          act === "kill" ? world.backend.kill(name, "over", signal) : world.backend.delete(name, signal);
        await assert.rejects(acting, refused("retryable", /LIST_UNAVAILABLE/));
        assert.ok(!world.identity.bound.has(name), "it is taken away all the same");
        world.server.setStoreAway(false);
        await world.backend.delete(name, signal);
        assert.deepEqual(await world.remains(name), []);
      });

    it("with an error as long as they do not go", async () => {
      const { world, id } = await running({ times: { goneMs: 100 } });
      world.server.hold(id);
      await assert.rejects(world.backend.delete(name, signal), refused("retryable", /is still there/));
      assert.equal(await phase(world), "running");
      world.server.release(id);
      await world.backend.delete(name, signal);
      assert.equal(await phase(world), undefined);
    });

    it("though their identity cannot be taken away, which is told afterwards", async () => {
      const { world } = await running();
      world.identity.failNext("revoke");
      await assert.rejects(world.backend.delete(name, signal), refused("retryable", /no answer/));
      assert.deepEqual(world.sandboxes(name), []);
      await world.backend.delete(name, signal);
    });

    it("by one who has never seen them", async () => {
      const { world } = await running();
      await world.another({ times: { staleMs: 0 } }).delete(name, signal);
      assert.deepEqual(world.sandboxes(name), []);
    });
  });

  it("that are killed have ended only when they are gone, and say why for as long as anybody remembers", async () => {
    const { world, id } = await running();
    world.server.hold(id);
    const killing = world.backend.kill(name, "it is silent", signal);
    await eventually("it is stopping", () => world.server.sandbox(id)?.isDeleting === true, 30_000, 5);
    assert.equal(await phase(world), "running");
    const restarted = world.another();
    assert.equal((await world.listed(name, restarted))?.state.phase, "running");
    world.server.release(id);
    await killing;
    const { state } = await reaches(world.backend, name, "ended");
    assert.deepEqual(state, { phase: "ended", reason: "it is silent" });
    const { state: seen } = await reaches(restarted, name, "ended");
    assert.deepEqual(seen, { phase: "ended", reason: "it-is-silent" });
  });

  it("are killed though the reason cannot be written on them", async () => {
    const { world } = await running();
    world.server.failNext("patch", { status: 500, body: "Internal Server Error" });
    await world.backend.kill(name, "it is silent", signal);
    assert.deepEqual(world.sandboxes(name), []);
  });

  it("run and say what they lack, where their identity is known not to come", async () => {
    const { world } = await running();
    const lacking = failureFor("identity", "no agent has joined");
    world.identity.lacks(name, lacking);
    assert.deepEqual((await world.listed(name))?.state, { phase: "running", waiting: lacking });
    world.identity.lacks(name, undefined);
    assert.deepEqual((await world.listed(name))?.state, { phase: "running" });
  });

  it("give their identities up when they are gone, and not before the server itself says so", async () => {
    const { world, id } = await running();
    const there = () => world.identity.isThere(name, signal);
    assert.equal(await there(), true);
    world.server.freeze("lists", []);
    assert.equal(await there(), true);
    world.server.setStoreAway(true);
    await assert.rejects(there(), /503|API_ERROR/);
    world.server.setStoreAway(false);
    world.server.thaw();
    world.server.remove(id);
    world.server.release(id);
    await reaches(world.backend, name, "ended");
    assert.equal(await there(), false);
    assert.equal(await world.identity.isThere("gitea-task-7-1-00000000", signal), false);
  });

  it("have their identities while the server looks into another namespace, where there is no pool", async () => {
    const { world } = await running();
    world.server.freeze("reads", []);
    world.server.pools.remove("ci-vm");
    await reaches(world.backend, name, "ended");
    await assert.rejects(world.identity.isThere(name, signal), /there is no pool ci-vm/);
    world.server.pools.open("ci-vm", 8);
    assert.equal(await world.identity.isThere(name, signal), false);
  });

  it("have their identities while nobody knows whether they come", async () => {
    const world = await aWorld();
    const held = world.server.holdNext("create", "before");
    const stop = new AbortController();
    const creating = world.backend.create(request, stop.signal);
    await held.arrived;
    assert.equal(await world.identity.isThere(name, signal), true);
    stop.abort(new Error("enough"));
    await assert.rejects(creating, /enough/);
    assert.equal(await world.identity.isThere(name, signal), true);
    held.release();
  });

  it("are looked after though what looks after their identities fails, and that is begun anew", async () => {
    const world = await aWorld({ isIdle: true });
    world.identity.failNext("run");
    const stop = new AbortController();
    const run = world.backend.run(stop.signal);
    const line = await world.log.line("looking after vms failed");
    assert.deepEqual([line.level, line.fields["doing"]], ["error", "identities of VMs"]);
    await lists(world, 3);
    stop.abort(new Error("enough"));
    await run;
  });

  it("say loudly at their start that there is no pool, and do not end for that", async () => {
    const world = await aWorld({ backend: { pool: "no-such-pool" } });
    const line = await world.log.line("the pool of vms does not exist, none can be made");
    assert.equal(line.fields["error"], "there is no pool no-such-pool");
    await lists(world, 3);
  });

  it("cost few calls when nothing happens", async () => {
    const world = await aWorld({ times: { idleMs: 100 } });
    await lists(world, 3);
    assert.ok(world.server.calls.every(({ verb }) => verb === "list" || verb === "pool"));
    assert.equal(world.server.count("pool"), 1);
  });
});

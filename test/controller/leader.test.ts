import assert from "node:assert/strict";
import { Code } from "@connectrpc/connect";
import { afterEach, describe, it } from "mocha";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { LeaseLostError } from "../../controller/lifecycle/lead.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createLeaderUnderTest, type LeaderUnderTest } from "../support/leader-under-test.ts";

const never = new AbortController().signal;
const someoneElse = {
  holder: "other",
  durationSeconds: 15,
  acquireTime: "2026-01-01T00:00:00.000Z",
  renewTime: "2026-01-01T00:00:00.000Z",
  transitions: 1,
};

describe("the core of a leader", () => {
  const running: LeaderUnderTest[] = [];
  afterEach("it ends in order", async () => {
    for (const one of running.splice(0)) {
      one.stop();
      one.lease.setAway(false);
      await one.clock.step(120_000);
      assert.notEqual(one.outcome(), undefined, "it still runs");
      assert.deepEqual(one.clock.pending(), [], "something still waits");
    }
  });
  const start = (...given: Parameters<typeof createLeaderUnderTest>) => {
    const one = createLeaderUnderTest(...given);
    running.push(one);
    return one;
  };

  /** Its executor is there and has not claimed. */
  async function withExecutor(one: LeaderUnderTest) {
    await one.clock.step(0);
    const job = one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    await one.clock.step(2_000);
    const record = one.core.assignments.all()[0]?.record;
    const attempt = record === undefined ? undefined : currentAttempt(record);
    assert.ok(record !== undefined && attempt !== undefined, "no executor");
    const { assignment } = record;
    return { job, assignment, client: one.client({ assignment, attempt, peer: assignment.spiffeId }) };
  }

  /** All that only a leader does, as far as the world has seen of it. */
  const deeds = ({ backend, model, queue, store }: LeaderUnderTest) => ({
    backend: backend.calls.filter(({ method }) => !["list", "markTerminal"].includes(method)).length,
    tasks: model.tasks.size,
    taken: queue.answers().filter(({ word }) => word !== "again").length,
    messages: queue.size,
    records: [...store.stored.values()].map(({ record }) => record.phase.name),
  });

  const nameOfLeader = async ({ bucket }: LeaderUnderTest) =>
    new TextDecoder().decode((await bucket.read("leader", never))?.value);

  it("B-24 says that it leads before it reads or serves anything", async () => {
    const one = start();
    one.setBucketAway(true);
    one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    await one.clock.step(60_000);
    const recovered = () => one.log.lines.filter(({ message }) => message === "recovered").length;
    assert.deepEqual([one.state(), recovered(), one.listens(), one.model.tasks.size], ["leads", 0, false, 0]);
    one.setBucketAway(false);
    await one.clock.step(10_000);
    assert.equal(await nameOfLeader(one), "me");
    assert.deepEqual([recovered(), one.listens(), one.model.tasks.size], [1, true, 1]);
  });

  it("does nothing at all before it leads, and ends at once at SIGTERM", async () => {
    const one = createLeaderUnderTest();
    one.lease.edit(someoneElse);
    one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    await one.clock.step(10_000);
    assert.deepEqual([one.state(), one.listens(), one.model.tasks.size], ["waits", false, 0]);
    assert.deepEqual(one.backend.calls, []);
    one.stop();
    await one.clock.step(0);
    assert.match(String(one.outcome()), /SIGTERM/);
    assert.deepEqual([one.clock.pending(), one.lease.writes], [[], []]);
  });

  it("stops at the renew deadline, and serves executors until another name is in the bucket", async () => {
    const one = start();
    const { client, job } = await withExecutor(one);
    one.lease.setAway(true);
    await one.clock.step(10_000);
    assert.deepEqual([one.state(), one.listens()], ["serves", true]);
    assert.deepEqual(
      one.queue.answers().map(({ word }) => word),
      ["again"],
      "the delivery is handed back",
    );
    const before = deeds(one);
    one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    const updates = one.updates();
    await one.clock.step(60_000);
    assert.deepEqual(deeds(one), before);
    assert.ok(one.updates() >= updates + 4, "the unclaimed task is spoken for");

    const { task } = await client.fetchTask({});
    await client.updateTask({ state: { id: task?.id ?? 0n } });
    await client.updateTask({ state: { id: task?.id ?? 0n, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
    assert.equal(one.outcome(), undefined);

    const { revision = 0 } = (await one.bucket.read("leader", never)) ?? {};
    await one.bucket.write("leader", new TextEncoder().encode("other"), revision, never);
    await one.clock.step(2_000);
    assert.deepEqual([one.state(), one.listens()], ["over", false]);
    assert.ok(one.outcome() instanceof LeaseLostError);
    // What is over is the next leader's to clear away.
    assert.deepEqual(one.backend.called("delete"), []);
  });

  it("ends, and says what is wrong, when another one leads over the same bucket with another Lease", async () => {
    const one = createLeaderUnderTest();
    await withExecutor(one);
    await one.clock.step(60_000);
    assert.deepEqual([one.state(), one.outcome()], ["leads", undefined]);
    const { revision = 0 } = (await one.bucket.read("leader", never)) ?? {};
    await one.bucket.write("leader", new TextEncoder().encode("other"), revision, never);
    await one.clock.step(10_000);
    assert.match(describeError(one.outcome()), /another controller leads over the same NATS_STREAM/);
    assert.equal(one.lease.stored?.record.holder, "");
  });

  describe("with a task in hand that cannot be stored when its Lease is lost", () => {
    async function withTaskInHand() {
      const one = start();
      await one.clock.step(0);
      one.setQueueAway(true);
      const job = one.model.addJob({ runsOn: ["self-hosted", "pod"] });
      one.lease.setAway(true);
      await one.clock.step(10_000);
      assert.equal(one.state(), "serves");
      assert.deepEqual([one.queue.size, one.model.shown(job).job], [0, "in_progress"]);
      return { one, job };
    }

    it("speaks for it and tries to store it as long as it serves", async () => {
      const { one, job } = await withTaskInHand();
      const updates = one.updates();
      await one.clock.step(600_000);
      assert.ok(one.updates() >= updates + 40, `${one.updates() - updates} beats in ten minutes`);
      assert.equal(one.model.shown(job).job, "in_progress");
      one.setQueueAway(false);
      await one.clock.step(10_000);
      assert.deepEqual([one.queue.size, one.store.stored.size], [1, 1]);
      await one.clock.step(60_000);
      assert.equal(one.model.shown(job).job, "in_progress");
      assert.deepEqual(one.backend.called("create"), []);
    });

    it("ends it in Gitea as not stored once another one leads", async () => {
      const { one, job } = await withTaskInHand();
      one.lease.edit(someoneElse);
      one.lease.setAway(false);
      await one.clock.step(60_000);
      assert.equal(one.model.shown(job).job, "failure");
      assert.ok(one.outcome() instanceof LeaseLostError);
    });
  });

  it("is over as soon as the API server answers again, also if the Lease is still its own", async () => {
    const one = start();
    await withExecutor(one);
    one.lease.setAway(true);
    await one.clock.step(30_000);
    one.lease.setAway(false);
    await one.clock.step(2_000);
    assert.ok(one.outcome() instanceof LeaseLostError);
    assert.equal(one.listens(), false);
    assert.equal(one.lease.stored?.record.holder, "");
  });

  it("lets the next one begin at once when it ends in order, and leaves the facade open until then", async () => {
    const one = start();
    await withExecutor(one);
    one.stop();
    await one.clock.step(0);
    assert.equal(one.outcome(), "done");
    assert.equal(one.lease.stored?.record.holder, "");
    assert.equal(one.listens(), true, "closed before the Lease was released");
  });

  describe("that stood still for longer than its Lease lasts", () => {
    const states = {
      "creates nothing": async (one: LeaderUnderTest) => {
        await one.clock.step(0);
        const go = one.backend.hold("list");
        one.model.addJob({ runsOn: ["self-hosted", "pod"] });
        await one.clock.step(1_500);
        assert.deepEqual(one.backend.called("create"), []);
        return go;
      },
      "begins no second attempt, and fails nothing": async (one: LeaderUnderTest) => {
        await withExecutor(one);
        const go = one.backend.hold("list");
        const [name = ""] = one.backend.world.stored.keys();
        one.backend.end(name, "OOMKilled", "start_oom");
        await one.clock.step(500);
        return go;
      },
      "deletes nothing, and forgets nothing": async (one: LeaderUnderTest) => {
        const { client } = await withExecutor(one);
        const { task } = await client.fetchTask({});
        await client.updateTask({ state: { id: task?.id ?? 0n } });
        await one.clock.step(1_000);
        const go = one.backend.hold("list");
        await client.updateTask({ state: { id: task?.id ?? 0n, result: Result.SUCCESS } });
        const [name = ""] = one.backend.world.stored.keys();
        one.backend.end(name);
        await one.clock.step(1_000);
        return go;
      },
      "kills nothing that is silent": async (one: LeaderUnderTest) => {
        const { client } = await withExecutor(one);
        const { task } = await client.fetchTask({});
        await client.updateTask({ state: { id: task?.id ?? 0n } });
        await one.clock.step(299_000);
        return one.backend.hold("list");
      },
      "takes no task": async (one: LeaderUnderTest) => {
        await one.clock.step(500);
        return () => void one.model.addJob({ runsOn: ["self-hosted", "pod"] });
      },
    };
    for (const [what, prepare] of Object.entries(states))
      it(what, async () => {
        const one = start();
        const goOn = await prepare(one);
        const before = deeds(one);
        // Nobody answers who asks for the Lease: it does not yet know more than the time.
        one.lease.hold();
        one.standStill(20_000);
        goOn();
        await one.clock.step(1_999);
        assert.deepEqual(deeds(one), before);
        assert.notEqual(one.state(), "leads");
        one.lease.setAway(true);
      });

    it("relays nothing that came meanwhile: the next leader may relay the same, and Gitea locks no log", async () => {
      const one = start();
      const { client, assignment } = await withExecutor(one);
      const { task } = await client.fetchTask({});
      await client.updateTask({ state: { id: task?.id ?? 0n } });
      const rows = [{ content: "row 1" }, { content: "row 2" }];
      await client.updateLog({ taskId: task?.id ?? 0n, rows: rows.slice(0, 1) });
      await one.clock.step(1_000);
      const stored = () => one.model.tasks.get(assignment.taskId)?.log.length;
      assert.equal(stored(), 1);
      one.lease.hold();
      one.standStill(20_000);
      await assert.rejects(client.updateLog({ taskId: task?.id ?? 0n, index: 1n, rows: rows.slice(1) }), {
        code: Code.Unavailable,
      });
      assert.equal(stored(), 1);
      assert.equal(one.state(), "over");
      one.lease.setAway(true);
    });

    it("goes on relaying when it stood still for less: nobody can have taken its Lease", async () => {
      const one = start();
      const { client, assignment } = await withExecutor(one);
      const { task } = await client.fetchTask({});
      await client.updateTask({ state: { id: task?.id ?? 0n } });
      one.lease.hold();
      one.standStill(12_000);
      await client.updateLog({ taskId: task?.id ?? 0n, rows: [{ content: "row 1" }] });
      assert.equal(one.model.tasks.get(assignment.taskId)?.log.length, 1);
      assert.equal(one.state(), "serves");
      one.lease.setAway(true);
    });

    for (const [what, prepare] of Object.entries(states))
      it(`did stand still then: otherwise it ${what.replace(/nothing|no second attempt|no task/g, "something")}`, async () => {
        const one = start();
        const goOn = await prepare(one);
        const before = deeds(one);
        goOn();
        await one.clock.step(1_999);
        assert.notDeepEqual(deeds(one), before);
      });
  });
});

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { OpenSandboxError } from "../../../controller/opensandbox/opensandbox-api.ts";
import type { StartedSandbox } from "../../fakes/opensandbox/pools.ts";
import { eventually } from "../../support/eventually.ts";
import {
  aNewSandbox,
  type ServedOpenSandbox,
  startServedOpenSandbox,
} from "../../support/served-opensandbox.ts";

const none = new AbortController().signal;
const owner = { "ci.ddupan.top/owner": "us" };

/** What the fake does that a real server does only by chance, or with a real pool behind it. */
describe("the fake OpenSandbox server's pools and troubles", () => {
  let served: ServedOpenSandbox;
  let started: StartedSandbox[];
  let stopped: string[];
  beforeEach(async () => {
    [started, stopped] = [[], []];
    served = await startServedOpenSandbox(
      {},
      { onStart: (sandbox) => started.push(sandbox), onStop: (id) => stopped.push(id) },
    );
  });
  afterEach(() => served[Symbol.asyncDispose]());

  const create = (job: string) => served.api.create(aNewSandbox({ metadata: { ...owner, job } }), none);
  /** A create that waits. */
  const begin = async (job: string) => {
    const created = create(job);
    created.catch(() => undefined);
    const { id } = await served.server.asked({ job });
    return { id, created };
  };
  const failed = (work: Promise<unknown>) =>
    work.then(
      () => "it did not fail",
      (error: unknown) => String(error),
    );
  const troubleOf = async (work: Promise<unknown>) => {
    const error: unknown = await work.catch((reason: unknown) => reason);
    assert.ok(error instanceof OpenSandboxError);
    return error.trouble;
  };

  it("gives the places of a pool to who waits first, and starts what is to run", async () => {
    served.server.pools.open("ci-vm", 1);
    const first = await served.api.create(
      aNewSandbox({ environment: { A: "1" }, metadata: { ...owner, job: "1" } }),
      none,
    );
    const [second, third] = [await begin("2"), await begin("3")];
    assert.deepEqual(started, [
      {
        id: first.id,
        entrypoint: ["gitea-opensandbox-runner"],
        environment: { A: "1" },
        metadata: { ...owner, job: "1" },
      },
    ]);
    assert.deepEqual((await served.api.pool("ci-vm", none))?.places, {
      total: 1,
      allocated: 1,
      available: 0,
    });
    // Its VM has ended, but the place is not free.
    served.server.end(first.id);
    assert.equal(started.length, 1);
    await served.api.delete(first.id, none);
    assert.equal((await second.created).id, second.id);
    assert.deepEqual([stopped, started.map(({ id }) => id)], [[first.id], [first.id, second.id]]);
    served.server.pools.open("ci-vm", 2);
    assert.equal((await third.created).id, third.id);
  });

  it("says of a full pool that it is full, or says nothing", async () => {
    served.server.pools.open("ci-vm", 0);
    const told = await begin("1");
    await served.clock.step(30_000);
    assert.match(await failed(told.created), /429 KUBERNETES::POOL_CAPACITY_EXHAUSTED/);
    served.server.pools.open("ci-vm", 0, { saysFull: false });
    const silent = await begin("2");
    await served.clock.step(60_000);
    assert.match(await failed(silent.created), /504 KUBERNETES::POD_READY_TIMEOUT/);
    assert.deepEqual(served.server.sandboxes(), []);
  });

  it("adds up for how long a pool is full", async () => {
    served.server.pools.set("ci-vm");
    const { id, created } = await begin("1");
    for (const isFull of [true, false, true]) {
      served.server.change(id, { isFull });
      await served.clock.step(15_000);
    }
    assert.match(await failed(created), /429/);
  });

  it("boots and stops VMs in its own time, well or not", async () => {
    served.server.pools.open("ci-vm", 1, { bootMs: 5_000, stopMs: 3_000 });
    const { id, created } = await begin("1");
    assert.equal((await served.api.get(id, none))?.words, "Pending/POD_SCHEDULED");
    await served.clock.step(5_000);
    await created;
    assert.equal(await served.api.delete(id, none), true);
    assert.equal((await served.api.get(id, none))?.state, "stopping");
    assert.deepEqual(stopped, []);
    await served.clock.step(3_000);
    assert.equal(await served.api.get(id, none), undefined);
    assert.deepEqual(stopped, [id]);
    served.server.pools.open("ci-vm", 1, { bootMs: 0, boot: "fails" });
    assert.equal(await troubleOf(create("2")), "vm_failed");
    // That one's place is free when its VM has stopped.
    await served.clock.step(3_000);
    served.server.pools.open("ci-vm", 1, { boot: "never" });
    const never = await begin("3");
    await served.clock.step(60_000);
    assert.equal(await troubleOf(never.created), "no_capacity");
    assert.equal(started.length, 1);
  });

  for (const injects of [0, 2] as const)
    it(`tells a VM ${injects} times what to run`, async () => {
      served.server.pools.open("ci-vm", 1, { injects });
      const { id } = await create("1");
      assert.equal(started.length, injects);
      served.server.pools.inject(id);
      assert.equal(started.length, injects + 1);
    });

  it("removes a sandbox whose time is over", async () => {
    served.server.pools.open("ci-vm", 1);
    const { id } = await create("1");
    await served.clock.step(599_000);
    assert.equal((await served.api.get(id, none))?.state, "running");
    await served.clock.step(1_000);
    assert.equal(await served.api.get(id, none), undefined);
    assert.deepEqual([stopped, served.clock.pending()], [[id], []]);
  });

  it("makes a sandbox though its caller has gone, and the answer is lost", async () => {
    served.server.pools.set("ci-vm");
    const stop = new AbortController();
    const created = served.api.create(aNewSandbox({ metadata: { ...owner, job: "1" } }), stop.signal);
    const { id } = await served.server.asked({ job: "1" });
    stop.abort(new Error("stopped"));
    await assert.rejects(created, /stopped/);
    await eventually("the connection is gone", () => served.server.served.connected === 0, 30_000, 5);
    served.server.give(id);
    assert.equal((await served.api.get(id, none))?.state, "running");
  });

  it("leaves what it should have removed", async () => {
    served.server.pools.set("ci-vm");
    served.server.failRollbacks(true);
    const { id, created } = await begin("1");
    await served.clock.step(60_000);
    assert.equal(await troubleOf(created), "no_capacity");
    assert.equal((await served.api.get(id, none))?.state, "pending");
  });

  it("shows for ever what there was, in lists or in all reads", async () => {
    const { id: old } = served.server.put({ labels: owner });
    served.server.freeze("lists");
    const { id } = served.server.put({ labels: owner });
    const ids = async () => (await served.api.list(owner, none)).map((sandbox) => sandbox.id);
    assert.deepEqual(await ids(), [old]);
    assert.equal((await served.api.get(id, none))?.id, id);
    served.server.freeze("reads", []);
    assert.deepEqual([await ids(), await served.api.get(id, none)], [[], undefined]);
    assert.equal(await served.api.delete(old, none), true);
    served.server.thaw();
    assert.deepEqual(await ids(), [id]);
  });

  it("writes over what another patch has changed, and keeps what is new to it", async () => {
    const { id } = served.server.put({ labels: { ...owner, step: "1" } });
    const held = served.server.holdNext("patch", "within");
    const first = served.api.addMetadata(id, { a: "1" }, none);
    await held.arrived;
    await served.api.addMetadata(id, { step: "2", b: "2" }, none);
    held.release();
    await first;
    assert.deepEqual((await served.api.get(id, none))?.metadata, { ...owner, step: "1", a: "1", b: "2" });
  });

  it("holds a call before it is done, or after", async () => {
    served.server.pools.open("ci-vm", 1);
    const before = served.server.holdNext("create", "before");
    const created = create("1");
    await before.arrived;
    assert.equal(served.server.sandboxes().length, 0);
    before.release();
    const { id } = await created;
    const after = served.server.holdNext("delete", "after");
    const deleted = served.api.delete(id, none);
    await after.arrived;
    assert.equal(served.server.sandboxes().length, 0);
    after.release();
    assert.equal(await deleted, true);
  });

  it("says words for a state that nobody knows", async () => {
    const { id } = served.server.put({});
    served.server.say(id, "Hibernating", "COLD");
    const { state, words } = (await served.api.get(id, none)) ?? {};
    assert.deepEqual([state, words], ["other", "Hibernating/COLD"]);
  });

  it("shows with an old controller no difference between waiting and ended", async () => {
    const { id } = served.server.put({});
    served.server.setOld(true);
    assert.equal((await served.api.get(id, none))?.words, "Pending/CREATING");
  });

  it("answers with an empty page or a proxy's, as it is told to", async () => {
    const { id } = served.server.put({ labels: owner });
    served.server.failNext("delete", { status: 502 });
    assert.equal(await troubleOf(served.api.delete(id, none)), "outage");
    served.server.failNext("list", { status: 502, body: "<html>bad gateway</html>" });
    assert.equal(await troubleOf(served.api.list(owner, none)), "outage");
    assert.equal((await served.api.list(owner, none)).length, 1);
  });
});

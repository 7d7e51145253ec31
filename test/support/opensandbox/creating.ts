import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { eventually } from "../eventually.ts";
import { newName, type OpenSandboxUnderTest } from "./under-test.ts";
import { none, troubleOf, useServer } from "./use-server.ts";

/** What a create does until its VM is there, and when none comes. */
export function describeCreating(make: () => Promise<OpenSandboxUnderTest>): void {
  const server = useServer(make);
  const list = () => server.api.list(server.owned(), none);

  describe("creating", () => {
    it("answers when the VM is ready, with an id of its own", async () => {
      const { id, created } = await server.begin({ metadata: { step: "1" } });
      assert.equal((await server.api.get(id, none))?.state, "pending");
      await server.under.pools.give(id);
      const sandbox = await created;
      assert.deepEqual([sandbox.id, sandbox.state, sandbox.metadata["step"]], [id, "running", "1"]);
      assert.equal(sandbox.metadata["ci.ddupan.top/owner"], server.owner);
      assert.ok(Math.abs((sandbox.createdAt ?? 0) - server.under.clock.now()) < 60_000);
      await server.says(id, (now) => now?.state === "running" && now.isAllocated);
    });

    it("shows no metadata but ours, and what others add", async () => {
      const sandbox = await server.make();
      assert.deepEqual(Object.keys(sandbox.metadata).toSorted(), [
        "ci.ddupan.top/nonce",
        "ci.ddupan.top/owner",
      ]);
      await server.under.pools.label(sandbox.id, { foreign: "label" });
      await server.says(sandbox.id, (now) => now?.metadata["foreign"] === "label");
    });

    it("answers when the VM has an address, though it is not ready", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.giveUnready(id);
      assert.deepEqual([(await created).id, (await created).state], [id, "running"]);
      assert.equal((await server.api.get(id, none))?.state, "allocated");
    });

    it("says no entrypoint to whoever sent none", async () => {
      const nonce = newName("nonce");
      const { pool } = server;
      const answered = server.raw("POST", "/sandboxes", {
        extensions: { poolRef: pool },
        timeout: 600,
        metadata: server.owned({ nonce }),
      });
      await server.under.pools.give(await server.under.pools.asked({ nonce }));
      const { status, body } = await answered;
      assert.deepEqual([status, body.entrypoint], [202, undefined]);
    });

    it("makes two of what is asked for twice", async () => {
      const metadata = { twice: newName("twice") };
      const [one, other] = [await server.make({ metadata }), await server.make({ metadata })];
      assert.notEqual(one.id, other.id);
      assert.equal((await server.api.list(server.owned(metadata), none)).length, 2);
    });

    it("says at once that there is no such pool, and makes nothing", async () => {
      const error = await troubleOf(server.api.create(server.wanted({ pool: newName("missing") }), none));
      assert.equal(error.trouble, "no_pool");
      assert.match(
        error.message,
        /^POST \/sandboxes: .*\(404 KUBERNETES::POOL_NOT_FOUND, request [0-9a-f-]{36}\)$/,
      );
      assert.deepEqual(await list(), []);
    });

    it("gives up a pool that stays full, says for how long, and removes what it began", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.setFull(id, true);
      const failed = troubleOf(created);
      await server.under.pass(server.under.limits.poolMs);
      const error = await failed;
      assert.deepEqual([error.trouble, error.retryAfterMs], ["no_capacity", server.under.limits.poolMs]);
      assert.match(error.message, /429 KUBERNETES::POOL_CAPACITY_EXHAUSTED/);
      await server.goes(id);
    });

    it("takes a place that comes free in time", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.setFull(id, true);
      await server.under.pass(Math.floor(server.under.limits.poolMs / 4));
      await server.under.pools.setFull(id, false);
      await server.under.pools.give(id);
      assert.equal((await created).state, "running");
    });

    it("gives up a VM that does not come, and removes what it began", async () => {
      const { id, created } = await server.begin();
      const failed = troubleOf(created);
      await server.under.pass(server.under.limits.createMs);
      const error = await failed;
      assert.deepEqual([error.trouble, error.retryAfterMs], ["no_capacity", undefined]);
      assert.match(error.message, /504 KUBERNETES::POD_READY_TIMEOUT/);
      await server.goes(id);
    });

    it("leaves one behind that is held when it gives up", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.hold(id);
      const failed = troubleOf(created);
      await server.under.pass(server.under.limits.createMs);
      assert.equal((await failed).trouble, "no_capacity");
      await server.says(id, (now) => now?.state === "stopping");
      await server.under.pools.release(id);
      await server.goes(id);
    });

    it("waits for one that somebody has deleted as long as for any", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.remove(id);
      const failed = troubleOf(created);
      await server.under.pass(server.under.limits.createMs);
      assert.match((await failed).message, /504 KUBERNETES::POD_READY_TIMEOUT/);
    });

    it("says at once that the VM has failed, and removes it", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.fail(id, "no image");
      const error = await troubleOf(created);
      assert.equal(error.trouble, "vm_failed");
      assert.match(error.message, /500 KUBERNETES::POD_FAILED/);
      await server.goes(id);
    });

    it("goes on when nobody waits any more: the VM comes, and is found", async () => {
      const stop = new AbortController();
      const { id, created } = await server.begin({}, stop.signal);
      stop.abort(new Error("stopped"));
      await assert.rejects(created, /^Error: stopped$/);
      await server.under.pools.give(id);
      await server.says(id, (now) => now?.state === "running");
      assert.deepEqual(
        (await list()).map((sandbox) => sandbox.id),
        [id],
      );
    });

    it("goes on when nobody waits any more: without a VM it is removed in time", async () => {
      const stop = new AbortController();
      const { id, created } = await server.begin({}, stop.signal);
      stop.abort(new Error("stopped"));
      await assert.rejects(created, /^Error: stopped$/);
      assert.equal(await server.under.pools.isThere(id), true);
      await server.under.pass(server.under.limits.createMs);
      await server.goes(id);
    });

    it("forgets with a restart what it waits for, and leaves it", async () => {
      const { id, created } = await server.begin();
      const failed = troubleOf(created);
      await server.under.restart();
      assert.equal((await failed).trouble, "outage");
      await server.says(id, (now) => now?.state === "pending" && !now.isAllocated);
      await server.under.pass(server.under.limits.createMs);
      assert.equal(await server.under.pools.isThere(id), true);
      assert.equal(await server.api.delete(id, none), true);
      await server.goes(id);
    });
  });

  describe("what it does not make", () => {
    const secret = "kept-secret-0123456789";
    const refusals = [
      { what: "a label that ends with -", sandbox: { metadata: { a: "abc-" } } },
      { what: "a label that begins with _", sandbox: { metadata: { a: "_abc" } } },
      { what: "a label of 64 characters", sandbox: { metadata: { a: "a".repeat(64) } } },
      { what: "a label of other letters", sandbox: { metadata: { a: "ä b" } } },
      { what: "a key that begins with -", sandbox: { metadata: { "-a": "1" } } },
      { what: "a key of the server's own", sandbox: { metadata: { "opensandbox.io/a": "1" } } },
      { what: "a life that is too short", sandbox: { timeoutSeconds: 59 } },
      { what: "a life that is too long", sandbox: { timeoutSeconds: 1_000_000 } },
      { what: "no entrypoint", sandbox: { entrypoint: [] } },
      { what: "no pool", sandbox: { pool: " " } },
    ];
    for (const { what, sandbox } of refusals)
      it(`refuses ${what}, and does not quote it`, async () => {
        const wanted = server.wanted({ ...sandbox, environment: { SECRET: secret } });
        const error = await troubleOf(server.api.create(wanted, none));
        assert.equal(error.trouble, "refused", error.message);
        assert.match(error.message, /\((400 SANDBOX::\w+|422), request [0-9a-f-]{36}\)$/);
        assert.ok(!error.message.includes(secret));
        assert.deepEqual(await list(), []);
      });

    it("cannot tell what became of a label with a line's end, of which nothing is left", async () => {
      const wanted = server.wanted({ metadata: { a: "abc\n" }, environment: { SECRET: secret } });
      const error = await troubleOf(server.api.create(wanted, none));
      assert.equal(error.trouble, "outage");
      assert.match(error.message, /500 KUBERNETES::API_ERROR/);
      assert.ok(!error.message.includes(secret));
      await eventually("nothing is there", async () => (await list()).length === 0, 50_000, 20);
    });
  });
}

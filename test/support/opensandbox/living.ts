import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { eventually } from "../eventually.ts";
import { newName, type OpenSandboxUnderTest } from "./under-test.ts";
import { none, troubleOf, useServer } from "./use-server.ts";

const unknown = "0b0e7b1c-0000-4000-8000-000000000000";

/** What becomes of a sandbox that has been made. */
export function describeLiving(make: () => Promise<OpenSandboxUnderTest>): void {
  const server = useServer(make);

  describe("a sandbox that nobody knows", () => {
    it("is said not to be there", async () => {
      assert.equal(await server.api.get(unknown, none), undefined);
      assert.equal(await server.api.delete(unknown, none), false);
      assert.equal(await server.api.addMetadata(unknown, { a: "b" }, none), undefined);
      for (const [method, path] of [
        ["GET", `/sandboxes/${unknown}`],
        ["DELETE", `/sandboxes/${unknown}`],
      ] as const) {
        const { status, code } = await server.raw(method, path);
        assert.deepEqual([status, code], [404, "KUBERNETES::SANDBOX_NOT_FOUND"]);
      }
    });
  });

  describe("a VM's end", () => {
    it("looks like waiting for one, but for the place that it has", async () => {
      const { id } = await server.make();
      await server.under.pools.end(id);
      await server.says(id, (now) => now?.state === "pending" && now.isAllocated);
      const waiting = await server.begin();
      const seen = await server.api.get(waiting.id, none);
      assert.deepEqual([seen?.state, seen?.isAllocated], ["pending", false]);
    });

    it("is told with its reason if the VM has failed", async () => {
      const { id } = await server.make();
      await server.under.pools.fail(id, "the guest has no memory");
      await server.says(id, (now) => now?.state === "failed");
      assert.match(
        (await server.api.get(id, none))?.words ?? "",
        /^Failed\/FAILED: the guest has no memory$/,
      );
    });

    it("is not told by a phase that nobody knows", async () => {
      const { id, created } = await server.begin();
      await server.under.pools.confuse(id);
      await server.says(id, (now) => now?.state === "pending" && !now.isAllocated);
      await server.under.pools.give(id);
      assert.equal((await created).state, "running");
    });
  });

  describe("deleting", () => {
    it("takes as long as its place is held, and it can be asked for again", async () => {
      const { id } = await server.make();
      assert.equal(await server.api.delete(id, none), true);
      await server.says(id, (now) => now?.state === "stopping" && !now.isAllocated);
      assert.equal(await server.api.delete(id, none), true);
      assert.deepEqual(
        (await server.api.list(server.owned(), none)).map((sandbox) => [sandbox.id, sandbox.state]),
        [[id, "stopping"]],
      );
      const marked = await server.api.addMetadata(id, { "ci.ddupan.top/terminal": "true" }, none);
      assert.equal(marked?.state, "stopping");
      await server.under.pools.release(id);
      await server.says(id, (now) => now === undefined);
      assert.equal(await server.api.delete(id, none), false);
      assert.equal(await server.api.addMetadata(id, { "ci.ddupan.top/terminal": "true" }, none), undefined);
      assert.deepEqual(await server.api.list(server.owned(), none), []);
    });

    it("is over at once where nothing is held, also while its create waits", async () => {
      const { id, created } = await server.begin();
      assert.equal(await server.api.delete(id, none), true);
      await server.goes(id);
      assert.equal(await server.api.get(id, none), undefined);
      const failed = troubleOf(created);
      await server.under.pass(server.under.limits.createMs);
      assert.equal((await failed).trouble, "no_capacity");
    });
  });

  describe("adding metadata", () => {
    it("keeps what was there, and answers with all of it", async () => {
      const { id, metadata } = await server.make();
      const after = await server.api.addMetadata(id, { "ci.ddupan.top/terminal": "true" }, none);
      assert.deepEqual(after?.metadata, { ...metadata, "ci.ddupan.top/terminal": "true" });
      assert.deepEqual((await server.api.get(id, none))?.metadata, after?.metadata);
      assert.deepEqual((await server.api.addMetadata(id, {}, none))?.metadata, after?.metadata);
    });

    it("loses no key that is new, however many come at once", async () => {
      const { id } = await server.make();
      const keys = Array.from({ length: 12 }, (_, number) => `add-${number}`);
      const adding = keys.map((key) => server.raw("PATCH", `/sandboxes/${id}/metadata`, { [key]: "v" }));
      for (const { status } of await Promise.all(adding)) assert.equal(status, 200);
      const now = (await server.api.get(id, none))?.metadata ?? {};
      assert.deepEqual(
        keys.filter((key) => now[key] !== "v"),
        [],
      );
    });

    it("takes 64 values of 63 characters", async () => {
      const { id } = await server.make();
      const chunks = Object.fromEntries(
        Array.from({ length: 64 }, (_, number) => [
          `ci.ddupan.top/annotations-${String(number).padStart(3, "0")}`,
          `A${"x-_".repeat(20)}bZ`,
        ]),
      );
      const after = await server.api.addMetadata(id, chunks, none);
      assert.equal(after?.metadata["ci.ddupan.top/annotations-063"]?.length, 63);
    });

    it("removes a key for null, and what is not there is no error", async () => {
      const { id } = await server.make();
      await server.api.addMetadata(id, { first: "1", second: "2" }, none);
      const { status, body } = await server.raw("PATCH", `/sandboxes/${id}/metadata`, {
        first: null,
        none: null,
      });
      assert.equal(status, 200);
      assert.deepEqual([body.metadata?.["first"], body.metadata?.["second"]], [undefined, "2"]);
    });

    it("refuses what is no label, and what is the server's own", async () => {
      const { id } = await server.make();
      for (const metadata of [{ a: "-x" }, { "opensandbox.io/id": "x" }, { a: "a".repeat(64) }]) {
        const error = await troubleOf(server.api.addMetadata(id, metadata, none));
        assert.equal(error.trouble, "refused");
        assert.match(error.message, /\(400 (SANDBOX::)?INVALID_METADATA_LABEL, request /);
      }
      const path = `/sandboxes/${id}/metadata`;
      assert.equal(
        (await server.raw("PATCH", path, { "opensandbox.io/id": "x" })).code,
        "INVALID_METADATA_LABEL",
      );
      assert.equal((await server.raw("PATCH", path, { a: "-x" })).code, "SANDBOX::INVALID_METADATA_LABEL");
      assert.equal((await server.raw("PATCH", path, { a: 1 })).status, 422);
    });
  });

  describe("a pool", () => {
    it("tells its places as soon as they are counted", async () => {
      const name = newName("counted");
      assert.equal(await server.api.pool(name, none), undefined);
      await server.under.pools.setPool(name);
      await eventually("the pool is there", async () => (await server.api.pool(name, none)) !== undefined);
      assert.deepEqual(await server.api.pool(name, none), { name });
      const places = { total: 3, allocated: 1, available: 2 };
      await server.under.pools.setPool(name, places);
      await eventually("it is counted", async () => (await server.api.pool(name, none))?.places?.total === 3);
      assert.deepEqual((await server.api.pool(name, none))?.places, places);
      await server.under.pools.removePool(name);
      await eventually("the pool is gone", async () => (await server.api.pool(name, none)) === undefined);
    });
  });
}

import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { eventually } from "../eventually.ts";
import { newName, type OpenSandboxUnderTest } from "./under-test.ts";
import { none, type RawAnswer, troubleOf, useServer } from "./use-server.ts";

/** Lists, keys, and a server that cannot answer. */
export function describeAsking(make: () => Promise<OpenSandboxUnderTest>): void {
  const server = useServer(make);
  const query = (filter: string, more = "") => `/sandboxes?metadata=${encodeURIComponent(filter)}${more}`;
  const idsIn = ({ body }: RawAnswer) => (body.items ?? []).map((item) => item.id);

  describe("listing", () => {
    it("shows what has all of the metadata exactly, and nothing else", async () => {
      const [one, two] = [newName("job"), newName("job")];
      const first = await server.make({ metadata: { job: one, kind: "a.b_c-D" } });
      const second = await server.make({ metadata: { job: two, kind: "a.b_c-D", "x.y/z": "" } });
      const found = async (filter: Readonly<Record<string, string>>) =>
        (await server.api.list(filter, none)).map((sandbox) => sandbox.id).toSorted();
      assert.deepEqual(await found(server.owned()), [first.id, second.id].toSorted());
      assert.deepEqual(await found({ job: one }), [first.id]);
      assert.deepEqual(await found(server.owned({ job: two, kind: "a.b_c-D" })), [second.id]);
      assert.deepEqual(await found({ job: one.slice(0, -1) }), []);
      assert.deepEqual(await found(server.owned({ job: one, kind: "other" })), []);
      assert.deepEqual(await found(server.owned({ "ci.ddupan.top/owner": newName("nobody") })), []);
    });

    it("shows everybody's without a filter, and drops what is not encoded twice", async () => {
      const [mine, others] = [
        await server.make(),
        await server.make({ metadata: { "ci.ddupan.top/owner": newName("other") } }),
      ];
      const all = idsIn(await server.raw("GET", "/sandboxes?metadata=&pageSize=200"));
      assert.deepEqual(
        [mine.id, others.id].filter((id) => !all.includes(id)),
        [],
      );
      const key = "ci.ddupan.top/owner";
      const once = await server.raw("GET", `/sandboxes?metadata=${key}=${server.owner}&nonce=none`);
      assert.deepEqual(idsIn(once), [mine.id]);
      assert.equal((await server.raw("GET", query("owner"))).code, "INVALID_METADATA_FORMAT");
    });

    it("makes each page anew, so that a deletion hides one that lives", async () => {
      const page = newName("page");
      const made = [];
      for (let number = 0; number < 3; number++) {
        const { id } = await server.make({ metadata: { page } });
        made.push(id);
      }
      const at = async (number: number) =>
        idsIn(await server.raw("GET", query(`page=${page}`, `&pageSize=1&page=${number}`)));
      const whole = [...(await at(1)), ...(await at(2)), ...(await at(3))];
      assert.deepEqual(whole.toSorted(), made.toSorted());
      assert.deepEqual(await at(4), []);
      const [first = "", hidden = "", next = ""] = await Promise.all(
        [1, 2, 3].map(async (n) => (await at(n))[0]),
      );
      await server.under.pools.release(first);
      assert.equal(await server.api.delete(first, none), true);
      await eventually("it is gone", async () => (await at(1))[0] === hidden, 50_000, 20);
      assert.deepEqual(await at(2), [next]);
    });

    it("has pages of 200 at the most, the first of which is 1", async () => {
      for (const wrong of ["pageSize=201", "pageSize=0", "page=0"])
        assert.equal((await server.raw("GET", query("a=b", `&${wrong}`))).status, 422);
      assert.equal((await server.raw("GET", query("a=b", "&pageSize=200"))).status, 200);
    });

    it("takes states in any case, and no state that it does not know", async () => {
      const { id } = await server.make();
      const filter = `ci.ddupan.top/owner=${server.owner}`;
      assert.deepEqual(idsIn(await server.raw("GET", query(filter, "&state=running"))), [id]);
      assert.deepEqual(idsIn(await server.raw("GET", query(filter, "&state=Pending&state=RUNNING"))), [id]);
      assert.deepEqual(idsIn(await server.raw("GET", query(filter, "&state=Bogus"))), []);
    });
  });

  describe("the key", () => {
    it("is needed for each call", async () => {
      const missing = await server.raw("GET", query("a=b"), undefined, {});
      assert.deepEqual([missing.status, missing.code], [401, "MISSING_API_KEY"]);
      const bearer = { Authorization: `Bearer ${server.under.key}` };
      assert.equal((await server.raw("GET", query("a=b"), undefined, bearer)).code, "MISSING_API_KEY");
      const { id } = await server.make();
      const stranger = server.withKey("not-the-key-of-the-server");
      const troubles = [
        stranger.create(server.wanted(), none),
        stranger.get(id, none),
        stranger.list(server.owned(), none),
        stranger.addMetadata(id, { a: "b" }, none),
        stranger.delete(id, none),
        stranger.pool(server.pool, none),
      ];
      for (const error of await Promise.all(troubles.map((work) => troubleOf(work)))) {
        assert.equal(error.trouble, "unauthorized");
        assert.match(error.message, /\(401 INVALID_API_KEY, request [0-9a-f-]{36}\)$/);
      }
      assert.equal((await server.api.get(id, none))?.metadata["a"], undefined);
    });
  });

  describe("an answer", () => {
    it("has the request's id, and of what cannot be read all that was sent", async () => {
      const headers = { "OPEN-SANDBOX-API-KEY": server.under.key, "X-Request-ID": "our-own-id" };
      const sent = { extensions: { poolRef: server.pool }, timeout: 1, env: { SECRET: "kept-secret" } };
      const {
        status,
        body,
        headers: answered,
        text,
      } = await server.raw("POST", "/sandboxes", { ...sent, entrypoint: [] }, headers);
      assert.deepEqual([status, answered.get("x-request-id")], [422, "our-own-id"]);
      assert.ok((body.detail ?? []).length > 0 && body.detail?.every((one) => "input" in one), text);
      const wrong = await server.raw(
        "POST",
        "/sandboxes",
        { ...sent, timeout: 600, metadata: { a: 1 } },
        headers,
      );
      assert.equal(wrong.status, 422);
      assert.equal((await server.raw("POST", "/sandboxes", "{", headers)).status, 422);
    });
  });

  describe("a server whose store is away", () => {
    it("says of nothing that it is not there", async () => {
      const { id } = await server.make();
      await server.under.setStoreAway(true);
      try {
        const troubles = [
          server.api.list(server.owned(), none),
          server.api.get(id, none),
          server.api.create(server.wanted(), none),
          server.api.addMetadata(id, { a: "b" }, none),
          server.api.delete(id, none),
          server.api.pool(server.pool, none),
        ];
        for (const work of await Promise.all(troubles.map((one) => troubleOf(one))))
          assert.equal(work.trouble, "outage", work.message);
      } finally {
        await server.under.setStoreAway(false);
      }
      await eventually(
        "it answers again",
        async () =>
          await server.api.get(id, none).then(
            (now) => now?.state === "running",
            () => false,
          ),
        90_000,
      );
      await eventually(
        "it lists again",
        async () =>
          await server.api.list(server.owned(), none).then(
            (all) => all.length === 1,
            () => false,
          ),
        90_000,
      );
    });
  });
}

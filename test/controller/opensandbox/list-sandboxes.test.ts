import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { listSandboxes } from "../../../controller/opensandbox/list-sandboxes.ts";
import type { Sandbox } from "../../../controller/opensandbox/opensandbox-api.ts";

const { signal } = new AbortController();
const sandbox = (id: string, words = ""): Sandbox => ({
  id,
  state: "running",
  words,
  isAllocated: true,
  metadata: {},
});

/** A collection in pages, of which `change` makes another after each page that is read. */
function pagesOf(
  ids: readonly string[],
  size: number,
  change: (ids: readonly string[], reads: number) => readonly string[],
) {
  let [now, reads] = [ids, 0];
  return {
    read: (page: number) => {
      const sandboxes = now.slice((page - 1) * size, page * size).map((id) => sandbox(id, `read ${reads}`));
      const hasNext = page * size < now.length;
      now = change(now, ++reads);
      return Promise.resolve({ sandboxes, hasNext });
    },
    get reads() {
      return reads;
    },
    get now() {
      return now;
    },
  };
}

const idsOf = (sandboxes: readonly Sandbox[]) => sandboxes.map(({ id }) => id).toSorted();

describe("listing sandboxes", () => {
  it("reads one page once", async () => {
    const pages = pagesOf(["a", "b"], 2, (ids) => ids);
    assert.deepEqual(idsOf(await listSandboxes(pages.read, signal)), ["a", "b"]);
    assert.equal(pages.reads, 1);
  });

  it("reads several pages until two sweeps have found the same, and gives the last form of each", async () => {
    const pages = pagesOf(["a", "b", "c"], 2, (ids) => ids);
    const found = await listSandboxes(pages.read, signal);
    assert.deepEqual(idsOf(found), ["a", "b", "c"]);
    assert.equal(pages.reads, 4);
    assert.ok(found.every(({ words }) => words === "read 2" || words === "read 3"));
  });

  it("finds what a deletion between two pages has hidden", async () => {
    const pages = pagesOf(["a", "b", "c"], 2, (ids, reads) => (reads === 1 ? ids.slice(1) : ids));
    assert.deepEqual(idsOf(await listSandboxes(pages.read, signal)), ["b", "c"]);
  });

  it("gives each once, though a new one shifts it to the next page", async () => {
    const pages = pagesOf(["a", "b", "c"], 2, (ids, reads) => (reads === 1 ? ["new", ...ids] : ids));
    assert.deepEqual(idsOf(await listSandboxes(pages.read, signal)), ["a", "b", "c", "new"]);
  });

  it("stops after five sweeps over what never stays the same, with what the last two have found", async () => {
    const pages = pagesOf(["0", "a", "b"], 2, (ids, reads) => [`${reads}`, ...ids.slice(1)]);
    const found = idsOf(await listSandboxes(pages.read, signal));
    assert.equal(pages.reads, 10);
    assert.deepEqual(found, ["6", "8", "a", "b"]);
  });

  it("gives up a list without an end", async () => {
    const read = () => Promise.resolve({ sandboxes: [sandbox("a")], hasNext: true });
    await assert.rejects(listSandboxes(read, signal), /has not ended after 100 pages/);
  });

  it("hides nothing that is there all the time, whatever few come and go", async () => {
    const change = fc.record({ at: fc.nat({ max: 20 }), isNew: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: 12 }), fc.array(change, { maxLength: 2 }), async (count, changes) => {
        const lasting = Array.from({ length: count }, (_, number) => `lasting-${number}`);
        const pages = pagesOf(["gone-0", ...lasting, "gone-1"], 3, (ids, reads) => {
          const now = changes.filter(({ at }) => at === reads);
          const come = now.filter(({ isNew }) => isNew).map(() => `new-${reads}`);
          const going = now.some(({ isNew }) => !isNew) ? ids.find((id) => id.startsWith("gone")) : undefined;
          return [...new Set([...come, ...ids.filter((id) => id !== going)])];
        });
        const found = idsOf(await listSandboxes(pages.read, signal));
        assert.deepEqual(
          lasting.filter((id) => !found.includes(id)),
          [],
        );
      }),
    );
  });
});

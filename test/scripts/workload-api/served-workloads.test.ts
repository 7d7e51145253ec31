import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import type { WorkloadEntry } from "../../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import {
  createServedWorkloads,
  type ServedWorkloads,
} from "../../../scripts/workload-api/served-workloads.ts";

const entry = (path: string, uid: number | null = null): WorkloadEntry => ({
  spiffeId: parseSpiffeId(`spiffe://example.org/${path}`),
  uid,
});

describe("workloads that are served", () => {
  let events: string[];
  let failing: Set<string>;
  let workloads: ServedWorkloads;
  beforeEach(() => {
    events = [];
    failing = new Set();
    workloads = createServedWorkloads(async (name, { spiffeId }) => {
      if (failing.has(name)) throw new Error(`cannot serve ${name}`);
      events.push(`open ${name} ${spiffeId}`);
      return { close: async () => void events.push(`close ${name}`) };
    });
  });

  it("are opened once, however often the entries are read", async () => {
    for (let i = 0; i < 3; i++) await workloads.reconcile(new Map([["a", entry("x")]]));
    assert.deepEqual(events, ["open a spiffe://example.org/x"]);
  });

  it("are closed when their entry goes, and nobody else's is", async () => {
    await workloads.reconcile(
      new Map([
        ["a", entry("x")],
        ["b", entry("y")],
      ]),
    );
    events = [];
    await workloads.reconcile(new Map([["b", entry("y")]]));
    assert.deepEqual(events, ["close a"]);
  });

  for (const [what, changed] of [
    ["ID", entry("z")],
    ["uid", entry("x", 60_600)],
  ] as const) {
    it(`are closed and opened anew when the ${what} changes`, async () => {
      await workloads.reconcile(new Map([["a", entry("x")]]));
      events = [];
      await workloads.reconcile(new Map([["a", changed]]));
      assert.deepEqual(events, ["close a", `open a ${changed.spiffeId}`]);
    });
  }

  it("do not suffer from one that cannot be opened, which is tried again", async () => {
    failing.add("a");
    const entries = new Map([
      ["a", entry("x")],
      ["b", entry("y")],
    ]);
    assert.deepEqual([...(await workloads.reconcile(entries))], [["a", "cannot serve a"]]);
    assert.deepEqual(events, ["open b spiffe://example.org/y"]);
    failing.clear();
    assert.deepEqual([...(await workloads.reconcile(entries))], []);
    assert.deepEqual(events.at(-1), "open a spiffe://example.org/x");
  });
});

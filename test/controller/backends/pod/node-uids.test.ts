import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { createNodeUids, type NodeUids } from "../../../../controller/backends/pod/node-uids.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/fake-clock.ts";

describe("the UIDs of nodes", () => {
  const { signal } = new AbortController();
  let there: Map<string, string>;
  let reads: string[];
  let clock: FakeClock;
  let nodes: NodeUids;

  beforeEach(() => {
    there = new Map([["node-1", "uid-1"]]);
    reads = [];
    clock = createFakeClock();
    const get = async (name: string) => {
      reads.push(name);
      return there.has(name) ? { metadata: { uid: there.get(name) } } : undefined;
    };
    nodes = createNodeUids({ get }, () => clock.now());
  });

  it("are read once, and again when they are older than they may be", async () => {
    assert.equal(await nodes.of("node-1", 60_000, signal), "uid-1");
    there.set("node-1", "uid-2");
    await clock.step(60_000);
    assert.equal(await nodes.of("node-1", 60_000, signal), "uid-1");
    assert.equal(await nodes.of("node-1", 59_000, signal), "uid-2");
    assert.deepEqual(reads, ["node-1", "node-1"]);
  });

  it("are waited for where a node is not there", async () => {
    const refused = (error: unknown) =>
      error instanceof BackendError && error.kind === "retryable" && error.reason === "identity";
    await assert.rejects(nodes.of("node-2", 60_000, signal), refused);
    there.set("node-2", "uid-3");
    assert.equal(await nodes.of("node-2", 60_000, signal), "uid-3");
  });

  it("are forgotten when a node is seen to be gone", async () => {
    assert.equal(await nodes.of("node-1", 60_000, signal), "uid-1");
    there.delete("node-1");
    assert.equal(await nodes.isThere("node-1", signal), false);
    await assert.rejects(nodes.of("node-1", 60_000, signal), /node-1 is not there/);
  });
});

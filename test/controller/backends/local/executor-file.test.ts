import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  belongsTo,
  deadlineOf,
  metadataOf,
  parseExecutorFile,
  serialiseExecutorFile,
} from "../../../../controller/backends/local/executor-file.ts";
import { anExecutorMetadata, testTrustDomain } from "../../../support/builders.ts";
import { more } from "../../../support/newer-version/with-more.ts";
import { aFile, executor } from "./fake-processes.ts";

describe("executor.json", () => {
  it("B-06 is read as it was written, metadata and all", () => {
    for (const file of [
      aFile(),
      aFile({ uid: 60999, process: null, killedFor: "a", ended: "b", cause: "killed" }),
    ]) {
      const read = parseExecutorFile(serialiseExecutorFile(file));
      assert.deepEqual(read, file);
      assert.deepEqual(metadataOf(executor, read, testTrustDomain), anExecutorMetadata());
    }
  });

  it("is read as an older controller wrote it, with the backend's limit as its deadline", () => {
    const { deadlineAt: _, ...older } = aFile();
    const read = parseExecutorFile(JSON.stringify(older));
    assert.equal(deadlineOf(read, 60), read.createdAt + 60_000);
  });

  it("is read as a newer controller wrote it, and keeps for that one what only that one knows", () => {
    const { process } = aFile();
    const text = JSON.stringify({ ...aFile(), process: { ...process, ...more }, ...more });
    const read = parseExecutorFile(text);
    assert.equal(read.process?.pid, process?.pid);
    assert.deepEqual(metadataOf(executor, read, testTrustDomain), anExecutorMetadata());
    const written: unknown = JSON.parse(serialiseExecutorFile({ ...read, ended: "it is over" }));
    assert.deepEqual(written, { ...JSON.parse(text), ended: "it is over" });
  });

  it("is read without the cause if only a newer controller knows that", () => {
    const file = { ...aFile({ ended: "it is over" }), cause: "struck_by_lightning" };
    const { cause, ended } = parseExecutorFile(JSON.stringify(file));
    assert.deepEqual([cause, ended], [undefined, "it is over"]);
  });

  it("has the earlier of its own deadline and the backend's limit", () => {
    const file = aFile({ deadlineAt: aFile().createdAt + 30_000 });
    assert.equal(deadlineOf(file, 60), file.deadlineAt);
    assert.equal(deadlineOf(file, 20), file.createdAt + 20_000);
  });

  for (const [what, change] of [
    ["uid 0, under which everything would be killed", { uid: 0 }],
    ["a uid above the range", { uid: 61000 }],
    ["pid 1", { process: { pid: 1, startTime: 1, bootId: "b" } }],
    ["a negative pid", { process: { pid: -1, startTime: 1, bootId: "b" } }],
    ["a process without boot", { process: { pid: 100, startTime: 1 } }],
    ["labels that are no texts", { labels: { a: 1 } }],
    ["a cause that is none", { cause: "bad luck" }],
    ["another version", { version: 2 }],
  ] as const) {
    it(`is refused with ${what}, on one line`, () => {
      const text = JSON.stringify({ ...aFile(), ...change });
      assert.throws(
        () => parseExecutorFile(text),
        (error) =>
          error instanceof Error &&
          error.message.startsWith("executor.json does not hold: ") &&
          !error.message.includes("\n"),
      );
    });
  }

  it("belongs to one owner and kind, and to both kinds when that cannot be read", () => {
    const { owner } = anExecutorMetadata();
    const file = aFile();
    assert.equal(belongsTo(file, owner, "pod"), true);
    assert.equal(belongsTo(file, owner, "vm"), false);
    assert.equal(belongsTo(file, "somebody-else", "pod"), false);
    const { "ci.ddupan.top/backend": _, ...labels } = file.labels;
    assert.equal(belongsTo({ ...file, labels }, owner, "pod"), true);
    assert.equal(belongsTo({ ...file, labels }, owner, "vm"), true);
    assert.equal(belongsTo({ ...file, labels: {} }, owner, "pod"), false);
  });

  it("does not hold in the folder of another executor", () => {
    assert.throws(() => metadataOf("gitea-task-43-1-00000000", aFile(), testTrustDomain), /is that of/);
  });
});

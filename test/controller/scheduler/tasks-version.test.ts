import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { createTasksVersion } from "../../../controller/scheduler/tasks-version.ts";

describe("the tasks version", () => {
  it("is 0 until Gitea has looked, then the one that it told", () => {
    const version = createTasksVersion();
    const { version: sent, epoch } = version.next(0);
    assert.equal(sent, 0n);
    version.answered(epoch, 5n);
    assert.equal(version.next(0).version, 5n);
  });

  it("B-21 never goes down by an answer, in whatever order answers come", () => {
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: 0n, max: 20n })), (answers) => {
        const version = createTasksVersion();
        let last = 0n;
        for (const answer of answers) {
          const { epoch } = version.next(0);
          version.answered(epoch, answer);
          const sent = version.next(0).version;
          assert.ok(sent === 0n || sent >= last, `${sent} after ${last}`);
          if (sent !== 0n) last = sent;
        }
      }),
    );
  });

  it("is 0 again when something may wait, until a fetch that began afterwards brought nothing", () => {
    const version = createTasksVersion();
    const before = version.next(0);
    version.lookAgain();
    version.answered(before.epoch, 5n);
    const after = version.next(0);
    assert.equal(after.version, 0n);
    version.answered(after.epoch, 5n);
    assert.equal(version.next(0).version, 5n);
  });

  it("stays 0 after the answer of a server that was too busy to look", () => {
    const version = createTasksVersion();
    version.answered(version.next(0).epoch, 0n);
    assert.equal(version.next(0).version, 0n);
  });

  it("is 0 every 30 s, for what no version tells", () => {
    const version = createTasksVersion();
    version.answered(version.next(0).epoch, 5n);
    assert.equal(version.next(29_999).version, 5n);
    const { version: sent, epoch } = version.next(30_000);
    assert.equal(sent, 0n);
    version.answered(epoch, 5n);
    assert.equal(version.next(59_999).version, 5n);
    assert.equal(version.next(60_000).version, 0n);
  });
});

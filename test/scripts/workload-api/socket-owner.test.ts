import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { socketOwner } from "../../../scripts/workload-api/socket-owner.ts";

const root = { uid: 0, gid: 0 };
const user = { uid: 1000, gid: 100 };

describe("owner of a workload's socket", () => {
  it("is the entry's uid when root serves it", () => {
    assert.deepEqual(socketOwner(60_600, root), { uid: 60_600, gid: 0 });
  });

  it("stays ours for an entry without uid, and for our own", () => {
    for (const own of [root, user]) {
      assert.equal(socketOwner(null, own), undefined);
      assert.equal(socketOwner(own.uid, own), undefined);
    }
  });

  it("is refused to anybody but root if it is another's", () => {
    assert.throws(() => socketOwner(60_600, user), /only root can serve uid 60600, this runs as uid 1000/);
    assert.throws(() => socketOwner(0, user), /only root/);
  });
});

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "mocha";
import {
  assignedIds,
  chooseUid,
  uidRange,
  uidsOf,
} from "../../../../controller/backends/local/choose-uid.ts";

describe("the choice of a uid", () => {
  it("B-41 divides the range between the backends, without a rest and without a common uid", () => {
    const [pod, vm] = [uidsOf("pod"), uidsOf("vm")];
    const both = new Set([...pod, ...vm]);
    assert.equal(both.size, pod.length + vm.length);
    assert.equal(Math.min(...both), uidRange.first);
    assert.equal(Math.max(...both), uidRange.last);
    assert.equal(both.size, uidRange.last - uidRange.first + 1);
  });

  it("takes only what is free, wherever the random number falls", () => {
    const taken = new Set([1, 3]);
    const chosen = [0, 0.5, 0.999999].map((random) => chooseUid([1, 2, 3, 4], taken, () => random));
    assert.deepEqual(chosen, [2, 4, 4]);
  });

  it("says when none is left", () => {
    assert.equal(
      chooseUid([1, 2], new Set([1, 2]), () => 0),
      undefined,
    );
  });

  it("reads the numbers that are assigned from files like /etc/passwd", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "ids-"));
    try {
      const [passwd, group] = [path.join(folder, "passwd"), path.join(folder, "group")];
      await writeFile(
        passwd,
        "root:x:0:0:root:/root:/bin/bash\n\n# a comment\n+nis\nci:x:60601:60602::/:/bin/sh\n",
      );
      await writeFile(group, "root:x:0:\nbuild:x:60700:ci,root\n");
      assert.deepEqual(await assignedIds([passwd, group]), [0, 60601, 0, 60700]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

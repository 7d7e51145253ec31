import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { anAssignment } from "../../support/builders.ts";
import { aReport, inPhase } from "../../support/phases.ts";
import { createReconcilerUnderTest } from "../../support/reconciler-under-test.ts";

const assignment = anAssignment();
const { id } = assignment;

describe("the controller's log", () => {
  it("says why a job was failed, once", async () => {
    const one = createReconcilerUnderTest();
    one.enter(inPhase("claimed"));
    const name = await one.create(assignment);
    one.backend.end(name, "the kernel ended it", "oom");
    for (let pass = 0; pass < 3; pass++) await one.pass();
    assert.deepEqual(
      one.log.lines.filter(({ message }) => message === "job failed").map(({ fields }) => fields),
      [{ assignment: id, backend: "pod", reason: "oom: the kernel ended it" }],
    );
  });

  it("says that Gitea never heard how a job ended", async () => {
    const one = createReconcilerUnderTest();
    one.enter(inPhase("ending", { end: { by: "executor", report: aReport } }));
    await one.clock.step(times.reportGiveUpMs);
    await one.pass();
    const [line] = one.log.lines.filter(({ level }) => level === "error");
    assert.equal(line?.message, "end of a task given up: Gitea could not be told in time");
    assert.deepEqual(line.fields, { assignment: id, backend: "pod", result: "success" });
  });
});

import assert from "node:assert/strict";
import { cancelRun } from "../../../../scripts/peers/gitea-api/web-session.ts";
import { conclusions, onlyJob, stepStates, type Workload } from "../../../support/workload.ts";

export const cancel: Workload = {
  name: "cancel",
  title: "a person cancels a run while a job of it runs and another one waits for that",
  act: async ({ newestRun, said, session, repository, signal }) => {
    const run = await newestRun();
    await said(run, "long", "begun");
    await cancelRun(session, repository, run, signal);
    // Gitea may show the job as cancelled before its runner has wound up.
    await said(run, "long", "context canceled");
  },
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { long: "cancelled", waits: "cancelled" });
    const states = stepStates(onlyJob(seen, "long"));
    assert.equal(states["Begin"], "success");
    assert.notEqual(states["Go on"], "success");
    assert.equal(states["Left out"], "cancelled");
  },
};

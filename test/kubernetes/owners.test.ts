import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { createAdmin, type GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { type Gitea, startGitea } from "../../scripts/peers/start-gitea.ts";
import { assertNumbered, numberedWorkflow } from "../support/kubernetes/numbered.ts";
import { recordPods, untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";
import { pushRun } from "../support/push-run.ts";

const namespace = "ci-shared";
const overMs = 240_000;

describe("two owners in one namespace, each with a Gitea of its own,", function () {
  this.timeout(600_000);
  const cluster = useCluster();
  let other: Gitea;
  let otherAdmin: GiteaAdmin;

  before("start another Gitea, whose tasks have the same ids", async () => {
    const { folder: below, kubernetes } = cluster.platform;
    const folder = path.join(below, "other-gitea");
    await mkdir(folder, { mode: 0o755 });
    other = await startGitea({ folder, address: kubernetes.hostAddress }, AbortSignal.timeout(60_000));
    otherAdmin = await createAdmin(other, { user: "demo" }, AbortSignal.timeout(60_000));
  });
  after(() => other.stop());

  it("run their jobs beside each other, and neither touches the other's", async () => {
    const { kubernetes } = cluster.platform;
    const ours = await cluster.tenant({ name: "ours", namespace });
    const theirs = await cluster.tenant({ name: "theirs", namespace, gitea: other });
    await using history = recordPods(kubernetes, namespace);
    const [first, second] = [await cluster.start({ tenant: ours }), await cluster.start({ tenant: theirs })];
    const workflow = numberedWorkflow(3, 8);
    const runs = [await cluster.push("same", workflow), await pushRun(otherAdmin, "same", workflow)] as const;
    for (const run of runs) await assertNumbered(run, 3, overMs);
    const created = [first, second].map(({ lines }) =>
      lines.filter(({ event }) => event === "executor_created").map(({ assignment }) => assignment),
    );
    assert.deepEqual(created[0]?.toSorted(), created[1]?.toSorted(), "the same ids");
    for (const names of history.pods.values()) assert.equal(names.size, 2);
    await untilNothingLeft(kubernetes, namespace);
    for (const { lines } of [first, second])
      assert.deepEqual(
        lines.filter(({ level }) => level === "error"),
        [],
      );
  });
});

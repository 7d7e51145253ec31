import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { createAdmin, type GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { type Gitea, startGitea } from "../../scripts/peers/start-gitea.ts";
import { useVmPlatform, type VmController } from "../support/opensandbox/use-vm-platform.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
const soon = () => AbortSignal.timeout(60_000);
const overMs = 180_000;
const numbers = [1, 2, 3];
const rows = 5;

const workflow = `
on: push
jobs:
  numbered:
    runs-on: [self-hosted, vm]
    strategy:
      matrix:
        n: [${numbers.join(", ")}]
    steps:
      - run: for i in $(seq ${rows}); do echo "row $i of \${{ matrix.n }}"; sleep 1; done
`;

describe("two owners of VMs in one pool, each with a Gitea of its own,", function () {
  this.timeout(300_000);
  const real = useVmPlatform();
  let other: Gitea;
  let otherAdmin: GiteaAdmin;

  before("start another Gitea, whose tasks have the same ids", async () => {
    other = await startGitea({ folder: await real.platform.lab.folder.below("other-gitea") }, soon());
    otherAdmin = await createAdmin(other, { user: "demo" }, soon());
  });
  after(() => other?.stop());

  it("run their jobs beside each other, and neither touches the other's", async () => {
    const { platform } = real;
    const { pool } = await real.pool("shared", 4);
    const ours = await real.start(await createVmTenant(platform, { name: "ours", pool }, signal));
    const theirs = await real.start(
      await createVmTenant({ ...platform, gitea: other }, { name: "theirs", pool }, signal),
    );
    const controllers = [ours, theirs];
    const admins = [platform.admin, otherAdmin];
    const runs = await Promise.all(admins.map((admin) => pushRun(admin, "same", workflow)));
    for (const run of runs) {
      const jobs = await run.jobs(undefined, overMs);
      for (const job of jobs) {
        const log = await run.log(job);
        assert.equal(job.conclusion, "success", log.join("\n"));
        const number = /\((\d)\)$/.exec(job.name)?.[1];
        const wanted = Array.from({ length: rows }, (_, index) => `row ${index + 1} of ${number}`);
        const said = log.filter((line) => line.startsWith("row "));
        assert.deepEqual(said, wanted, job.name);
      }
      assert.equal(jobs.length, numbers.length);
    }
    await untilNoVmLeft(platform);
    const [first, second] = controllers.map(created);
    assert.equal(first?.length, numbers.length);
    assert.deepEqual(first, second, "the same ids");
    const given = platform.lab.log.lines.filter(({ message }) => message === "a sandbox has a vm");
    assert.equal(given.length, 2 * numbers.length, "one VM for each job");
    // Both may want the last place that is ready; who comes second asks again.
    const later = /^the pool shared has \d+ places that are ready, and \d+ VMs are asked for already$/;
    for (const { lines } of controllers)
      assert.deepEqual(
        lines.filter(({ level, error }) => level === "error" && !later.test(String(error))),
        [],
      );
  });
});

function created({ lines }: VmController): readonly unknown[] {
  return lines
    .filter(({ event }) => event === "executor_created")
    .map(({ assignment }) => String(assignment))
    .toSorted();
}

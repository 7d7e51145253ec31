import assert from "node:assert/strict";
import { chmod, readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "mocha";
import { gateIn } from "../support/chaos/gates.ts";
import { eventually } from "../support/eventually.ts";
import { gatedWorkflow } from "../support/opensandbox/gated-workflow.ts";
import { pushRun } from "../support/push-run.ts";
import type { PoolController } from "../support/opensandbox/pool-controller.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { useVmPlatform, type VmController } from "../support/opensandbox/use-vm-platform.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";

const { signal } = new AbortController();
const jobsMs = 240_000;

/** Says who it is, and fetches the job's own SVID, as a step of a workflow would. */
const workflow = `
on: push
jobs:
  first:
    runs-on: [self-hosted, vm]
    outputs:
      word: \${{ steps.say.outputs.word }}
    steps:
      - id: say
        run: |
          echo "uid $(id -u)"
          spire-agent api fetch x509 -socketPath "\${SPIFFE_ENDPOINT_SOCKET#unix://}" | grep -F 'SPIFFE ID'
          echo "word=\${{ github.job }}" >> "$GITHUB_OUTPUT"
  second:
    needs: first
    runs-on: [self-hosted, vm]
    steps:
      - run: echo "heard \${{ needs.first.outputs.word }}"
`;

describe("a push to a real Gitea, with VMs of a real OpenSandbox server", function () {
  this.timeout(600_000);
  const real = useVmPlatform();
  let pool: PoolController;
  let controller: VmController;

  before("start the controller", async () => {
    pool = await real.pool("ci-vm", 2);
    controller = await real.start(
      await createVmTenant(real.platform, { name: "vms", pool: pool.pool }, signal),
    );
  });

  it("B-60 B-93 runs each job in a VM of its own, with its own SVID for uid 2000, and leaves nothing", async () => {
    pool.setInjection("once");
    const run = await pushRun(real.platform.admin, "chain", workflow);
    const jobs = await run.jobs(undefined, jobsMs);
    assert.deepEqual(
      jobs.map(({ name, conclusion }) => [name, conclusion]),
      [
        ["first", "success"],
        ["second", "success"],
      ],
    );
    const [first, second] = await Promise.all(jobs.map((job) => run.log(job)));
    assert.ok(first?.includes("uid 2000"), first?.join("\n"));
    assert.match(first?.join("\n") ?? "", /SPIFFE ID:\s+spiffe:\/\/vms\.example\/ci\/demo\/chain\/first/);
    assert.ok(second?.includes("heard first"), second?.join("\n"));
    const created = controller.lines.filter(({ event }) => event === "executor_created");
    assert.equal(created.length, 2);
    await untilNoVmLeft(real.platform);
  });

  it("runs a job once though its task reaches the VM twice", async () => {
    pool.setInjection("twice");
    const { folder } = real.platform.lab;
    const shared = await folder.below("shared");
    await chmod(shared, 0o777);
    const [begun, end] = [gateIn(shared, "begun"), gateIn(shared, "end")];
    const run = await pushRun(real.platform.admin, "twice", gatedWorkflow(begun, end));
    await begun.opened();
    // The job's end is that of its VM, and of whoever is about to look whether it has begun.
    await eventually("the other one is turned away", async () => (await turnedAway(folder.path)) === 1);
    await end.unlock();
    const [job] = await run.jobs(undefined, jobsMs);
    assert.equal(job?.conclusion, "success");
    const log = await run.log(job);
    assert.equal(log.filter((line) => line === "still here").length, 1, log.join("\n"));
    await untilNoVmLeft(real.platform);
    assert.equal(await turnedAway(folder.path), 1);
  });
});

/** How many tasks of all VMs found that the job was started already: whichever of two comes second. */
async function turnedAway(folder: string): Promise<number> {
  const vms = path.join(folder, "vms");
  const files = (await readdir(vms, { recursive: true })).filter((file) => /task-\d\.log$/.test(file));
  const texts = await Promise.all(files.map((file) => readFile(path.join(vms, file), "utf8")));
  return texts.filter((text) => text.includes("the job of this VM was started already")).length;
}

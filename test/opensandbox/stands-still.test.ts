import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { beforeEach, describe, it } from "mocha";
import { systemClock } from "../../controller/platform/clock.ts";
import { type Gate, gateIn } from "../support/chaos/gates.ts";
import { eventually } from "../support/eventually.ts";
import type { PoolController } from "../support/opensandbox/pool-controller.ts";
import { gatedWorkflow } from "../support/opensandbox/gated-workflow.ts";
import { useVmPlatform, type VmController } from "../support/opensandbox/use-vm-platform.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { type PushedRun, pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
const overMs = 120_000;
/** Longer than the backend hands out what it has seen (30 s), and than an executor may be absent from it (30 s). */
const stillMs = 45_000;

describe("an OpenSandbox server that stands still", function () {
  this.timeout(300_000);
  const real = useVmPlatform();
  let pool: PoolController;
  let leader: VmController;
  let run: PushedRun;
  let end: Gate;

  beforeEach("run a job in a VM", async () => {
    const { platform } = real;
    pool = await real.pool("ci-vm", 2);
    leader = await real.start(await createVmTenant(platform, { name: "still", pool: pool.pool }, signal));
    const shared = await platform.lab.folder.below("shared");
    await chmod(shared, 0o777);
    const begun = gateIn(shared, "begun");
    end = gateIn(shared, "end");
    run = await pushRun(platform.admin, "still", gatedWorkflow(begun, end));
    await begun.opened();
  });

  it("costs no running job its result, nor is the job run twice", async () => {
    const { server, log } = real.platform.lab;
    await server.component.pause();
    const pausedAt = systemClock.now();
    try {
      await eventually("no view is fresh any more", () => systemClock.now() - pausedAt > stillMs, overMs);
      await end.unlock();
      const [job] = await run.jobs(undefined, overMs);
      assert.ok(job !== undefined);
      const rows = await run.log(job);
      assert.equal(job.conclusion, "success", rows.join("\n"));
      assert.equal(rows.filter((row) => row === "still here").length, 1, rows.join("\n"));
      assert.equal(pool.held().length, 1);
    } finally {
      server.component.resume();
    }
    await untilNoVmLeft(real.platform);
    assert.equal(log.lines.filter(({ message }) => message === "a sandbox has a vm").length, 1);
    assert.equal(leader.lines.filter(({ event }) => event === "executor_created").length, 1);
  });
});

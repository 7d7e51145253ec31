import assert from "node:assert/strict";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import type { PoolController } from "../support/opensandbox/pool-controller.ts";
import { useVmPlatform, type VmController } from "../support/opensandbox/use-vm-platform.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
const overMs = 180_000;
const workflow =
  "on: push\njobs:\n  one:\n    runs-on: [self-hosted, vm]\n    steps:\n      - run: echo it runs\n";

describe("a task that never reaches its VM", function () {
  this.timeout(500_000);
  const real = useVmPlatform();
  let pool: PoolController;
  let controller: VmController;

  const created = () => controller.lines.filter(({ event }) => event === "executor_created");
  /** A controller that gives a VM so long to claim its job. */
  const start = async (name: string, startMs: number) => {
    const RUNNER_TIMES = JSON.stringify({ startMs, claimMs: 1_000, againMs: 500, attemptDelayMs: 500 });
    const environment = await createVmTenant(real.platform, { name, pool: pool.pool }, signal);
    controller = await real.start({ ...environment, RUNNER_TIMES });
  };

  before("start the pool", async () => {
    pool = await real.pool("ci-vm", 2);
  });
  beforeEach(() => pool.setInjection("never"));
  afterEach(() => controller?.process.stop());

  it("reaches the next one, in which the job runs", async () => {
    // Longer than a VM takes to its claim on a busy machine.
    await start("deaf-once", 45_000);
    const run = await pushRun(real.platform.admin, "second", workflow);
    await controller.line(({ event }) => event === "executor_created");
    pool.setInjection("once");
    const [job] = await run.jobs(undefined, overMs);
    assert.ok(job !== undefined);
    const log = await run.log(job);
    assert.equal(job.conclusion, "success", log.join("\n"));
    assert.equal(log.filter((row) => row === "it runs").length, 1, log.join("\n"));
    assert.equal(created().length, 2);
    await untilNoVmLeft(real.platform);
  });

  it("fails its job after three VMs, with the reason", async () => {
    await start("deaf", 5_000);
    const run = await pushRun(real.platform.admin, "never", workflow);
    const [job] = await run.jobs(undefined, overMs);
    assert.ok(job !== undefined);
    const log = (await run.log(job)).join("\n");
    assert.equal(job.conclusion, "failure", log);
    assert.match(log, /^This job never started: .*$/m);
    assert.match(log, /Reason: too_slow\./);
    assert.equal(created().length, 3);
    await untilNoVmLeft(real.platform);
  });
});

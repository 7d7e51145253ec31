import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { beforeEach, describe, it } from "mocha";
import { freePort } from "../../scripts/peers/free-port.ts";
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

describe("a takeover while the OpenSandbox server is away", function () {
  this.timeout(300_000);
  const real = useVmPlatform();
  let pool: PoolController;
  let environment: Readonly<Record<string, string>>;
  let leader: VmController;
  let run: PushedRun;
  let end: Gate;

  beforeEach("run a job in a VM", async () => {
    const { platform } = real;
    pool = await real.pool("ci-vm", 2);
    environment = await createVmTenant(platform, { name: "away", pool: pool.pool }, signal);
    leader = await real.start(environment);
    const shared = await platform.lab.folder.below("shared");
    await chmod(shared, 0o777);
    const begun = gateIn(shared, "begun");
    end = gateIn(shared, "end");
    run = await pushRun(platform.admin, "away", gatedWorkflow(begun, end));
    await begun.opened();
  });

  it("costs no job its result, and no VM is left when the server is back", async () => {
    const { server, log } = real.platform.lab;
    await server.kill();
    leader.process.signal("SIGKILL");
    await leader.process.exited;
    const next = await real.start({
      ...environment,
      HOSTNAME: "next",
      HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    });
    await end.unlock();
    const [job] = await run.jobs(undefined, overMs);
    assert.ok(job !== undefined);
    const rows = await run.log(job);
    assert.equal(job.conclusion, "success", rows.join("\n"));
    assert.equal(rows.filter((row) => row === "still here").length, 1, rows.join("\n"));
    assert.equal(pool.held().length, 1, "its VM is still there, for nobody can delete it");

    await server.component.start(signal);
    await untilNoVmLeft(real.platform);
    await eventually("its place is free", () => pool.held().length === 0);
    const given = log.lines.filter(({ message }) => message === "a sandbox has a vm");
    assert.equal(given.length, 1);
    assert.ok(!next.lines.some(({ event }) => event === "executor_created"));
  });
});

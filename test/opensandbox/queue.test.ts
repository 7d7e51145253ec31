import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { after, before, describe, it } from "mocha";
import { registerRunner } from "../../scripts/peers/gitea-api/register-runner.ts";
import { gateIn } from "../support/chaos/gates.ts";
import { eventually } from "../support/eventually.ts";
import { fetchAndForget } from "../support/fetch-and-forget.ts";
import { gatedWorkflow } from "../support/opensandbox/gated-workflow.ts";
import { useVmPlatform, type VmController } from "../support/opensandbox/use-vm-platform.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
/** Gitea ends a task of which it has heard nothing for so long; an executor says every 10 s that it lives. */
const zombieSeconds = 20;
const behind = 3;
const overMs = 240_000;

const job = (runsOn: string, script: string) =>
  `on: push\njobs:\n  one:\n    runs-on: [${runsOn}]\n    steps:\n      - run: ${script}\n`;
const vmJob = (script: string) => job("self-hosted, vm", script);

describe("jobs that wait for the only VM longer than Gitea has patience", function () {
  this.timeout(500_000);
  const stop = new AbortController();
  const real = useVmPlatform({
    giteaSettings: {
      actions: { ENABLED: "true", ZOMBIE_TASK_TIMEOUT: `${zombieSeconds}s` },
      "cron.stop_zombie_tasks": { ENABLED: "true", SCHEDULE: "@every 1s" },
    },
  });
  let controller: VmController;

  before("start the controller", async () => {
    const { pool } = await real.pool("one-vm", 1);
    const environment = await createVmTenant(real.platform, { name: "single", pool, capacity: 1 }, signal);
    // Gitea hears of those that wait as much more often as its patience is shorter; places are free a little sooner.
    const RUNNER_TIMES = JSON.stringify({ beatMs: 2_000, quietMs: 12_000 });
    controller = await real.start({ ...environment, VM_BACKLOG: String(behind), RUNNER_TIMES });
  });
  after(() => stop.abort());

  it("are not ended by Gitea, and succeed one after the other", async () => {
    const { admin, gitea, lab } = real.platform;
    const shared = await lab.folder.below("shared");
    await chmod(shared, 0o777);
    // It holds the only VM for longer than Gitea waits for others.
    const [begun, end] = [gateIn(shared, "begun"), gateIn(shared, "end")];
    const long = await pushRun(admin, "long", gatedWorkflow(begun, end));
    await controller.line(({ event }) => event === "runner_claimed");
    const waiting = [];
    for (let number = 1; number <= behind; number++)
      waiting.push(await pushRun(admin, `waiting-${number}`, vmJob(`"echo waited ${number}; sleep 1"`)));
    const stored = () => controller.lines.filter(({ msg }) => msg === "task stored").length;
    await eventually("all of them are fetched", () => stored() === behind + 1);
    assert.equal(controller.lines.filter(({ event }) => event === "executor_created").length, 1);
    // Fetched after those that wait with us, and not a word about it since.
    const forgotten = await pushRun(admin, "forgotten", job("deaf", "echo never"));
    const runner = { name: "deaf", labels: ["deaf"], scope: "demo/forgotten" };
    fetchAndForget(gitea.url, await registerRunner(gitea, runner, signal), stop.signal);
    const [swept] = await forgotten.jobs(undefined, overMs);
    assert.equal(swept?.conclusion, "failure");
    assert.equal(controller.lines.filter(({ event }) => event === "executor_created").length, 1);

    await end.unlock();
    for (const [index, run] of [long, ...waiting].entries()) {
      const [only] = await run.jobs(undefined, overMs);
      assert.ok(only !== undefined);
      const log = await run.log(only);
      assert.equal(only.conclusion, "success", log.join("\n"));
      if (index > 0) assert.ok(log.includes(`waited ${index}`), log.join("\n"));
    }
    await untilNoVmLeft(real.platform);
    const of = (what: string) => lab.log.lines.filter(({ message }) => message === what).length;
    await eventually("all places are free", () => of("a sandbox is gone") === of("a sandbox has a vm"));
    assert.equal(of("a sandbox has a vm"), behind + 1);
  });
});

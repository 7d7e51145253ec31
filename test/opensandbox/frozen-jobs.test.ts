import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { after, afterEach, before, describe, it } from "mocha";
import { ownerLabel } from "../../controller/assignment/executor-metadata.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { freePort } from "../../scripts/peers/free-port.ts";
import { gateIn } from "../support/chaos/gates.ts";
import { eventually } from "../support/eventually.ts";
import { type FreezableServer, startFreezableServer } from "../support/opensandbox/frozen-server.ts";
import { gatedWorkflow } from "../support/opensandbox/gated-workflow.ts";
import { useVmPlatform } from "../support/opensandbox/use-vm-platform.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { type PushedRun, pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
const overMs = 180_000;
/** Longer than an executor may be absent from a list (30 s), and shorter than the server is deaf (70 s). */
const stillMs = 45_000;
/** Within which its view is made to stand still. */
const createSeconds = 30;

describe("jobs in VMs of an OpenSandbox server whose view of them stands still while it answers", function () {
  this.timeout(800_000);
  const real = useVmPlatform();
  let frozen: FreezableServer;
  let shared: string;

  before("start one more server", async () => {
    frozen = await startFreezableServer(real.platform.lab, { createSeconds }, signal);
    shared = await real.platform.lab.folder.below("shared");
    await chmod(shared, 0o777);
  });
  afterEach(() => frozen?.thaw());
  after(() => frozen?.[Symbol.asyncDispose]());

  const wayTo = ({ server }: Pick<FreezableServer, "server">) => ({
    OPENSANDBOX_API: server.url.href,
    OPENSANDBOX_API_KEY_FILE: server.keyFile,
  });
  const told = (message: string) =>
    real.platform.lab.log.lines.filter((line) => line.message === message).length;
  const given = () => told("a sandbox has a vm");
  const gone = () => told("a sandbox is gone");
  const succeeds = async (run: PushedRun) => {
    const [job] = await run.jobs(undefined, overMs);
    assert.ok(job !== undefined);
    const rows = await run.log(job);
    assert.equal(job.conclusion, "success", rows.join("\n"));
    assert.equal(rows.filter((row) => row === "still here").length, 1, rows.join("\n"));
  };

  it("go on under whoever takes over, though the list is from before them", async () => {
    const { platform } = real;
    const pool = await real.pool("taken-over", 1);
    const tenant = { name: "taken-over", pool: pool.pool };
    const environment = await createVmTenant(platform, tenant, signal);
    const [begun, end] = [gateIn(shared, "begun-1"), gateIn(shared, "end-1")];
    const leader = await real.start(environment);
    await frozen.freeze();
    const run = await pushRun(platform.admin, "taken-over", gatedWorkflow(begun, end));
    await begun.opened();
    leader.process.signal("SIGKILL");
    await leader.process.exited;
    const next = await real.start({
      ...environment,
      ...wayTo(frozen),
      HOSTNAME: "next",
      HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    });
    const ledAt = systemClock.now();
    await eventually("it would be gone by now", () => systemClock.now() - ledAt > stillMs);
    const { GITEA_RUNNER_UUID: owner = "" } = environment;
    assert.deepEqual(await frozen.api.list({ [ownerLabel]: owner }, signal), [], "the list is still old");
    await end.unlock();
    await succeeds(run);
    assert.equal(pool.held().length, 1, "its VM is still there, for nobody can know of it");
    frozen.thaw();
    await untilNoVmLeft(platform);
    assert.equal(given(), 1, "one VM");
    assert.ok(!next.lines.some(({ event }) => event === "executor_created"));
    await next.process.stop();
  });

  it("run once though the server does not see that a VM is ready, and wait for one that it still shows", async () => {
    const { platform } = real;
    const pool = await real.pool("one-place", 1);
    const tenant = { name: "one-place", pool: pool.pool, capacity: 1 };
    const controller = await real.start({
      ...(await createVmTenant(platform, tenant, signal)),
      ...wayTo(frozen),
    });
    const earlier = given();
    pool.holdPlaces(true);
    const [begun, end] = [gateIn(shared, "begun-2"), gateIn(shared, "end-2")];
    const first = await pushRun(platform.admin, "not-seen", gatedWorkflow(begun, end));
    await eventually(
      "a VM is asked for",
      async () => (await platform.lab.resources.list(signal)).length === 1,
    );
    await frozen.freeze();
    pool.holdPlaces(false);
    await eventually(
      "a VM that nobody sees has come and gone",
      () => given() === earlier + 1 && gone() === given(),
      120_000,
    );
    frozen.thaw();
    await controller.line(({ event }) => event === "runner_claimed", overMs);
    await begun.opened();
    assert.equal(given(), earlier + 2);
    assert.equal(pool.held().length, 1);

    pool.holdDeletions(true);
    await end.unlock();
    await succeeds(first);
    const deleted = async () =>
      (await platform.lab.resources.list(signal)).some(({ isDeleted }) => isDeleted);
    await eventually("its VM is being deleted", deleted, 120_000);
    await frozen.freeze();
    pool.holdDeletions(false);
    await eventually("its VM is gone", () => gone() === given());
    const [next, over] = [gateIn(shared, "begun-3"), gateIn(shared, "end-3")];
    await over.unlock();
    const second = await pushRun(platform.admin, "waits", gatedWorkflow(next, over));
    const stored = () => controller.lines.filter(({ msg }) => msg === "task stored").length;
    await eventually("it is fetched", () => stored() === 2, overMs);
    assert.equal(given(), earlier + 2, "the slot is held as long as the server shows its VM");
    frozen.thaw();
    await succeeds(second);
    await untilNoVmLeft(platform);
    assert.equal(given(), earlier + 3);
    const errors = controller.lines.filter(({ level }) => level === "error");
    assert.deepEqual(
      errors.map(({ error }) => /\d+ KUBERNETES::\w+/.exec(String(error))?.[0]),
      ["504 KUBERNETES::POD_READY_TIMEOUT"],
      "of the VM that nobody saw",
    );
  });
});

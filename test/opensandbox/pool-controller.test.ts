import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { createHttpApi } from "../../controller/opensandbox/http-api.ts";
import {
  type NewSandbox,
  type OpenSandboxApi,
  OpenSandboxError,
} from "../../controller/opensandbox/opensandbox-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { eventually } from "../support/eventually.ts";
import { processesMentioning } from "../support/find-processes.ts";
import { skipFor } from "../support/needs-tools.ts";
import type { PoolController } from "../support/opensandbox/pool-controller.ts";
import { createProcessVms, type ProcessVm, processVmObstacle } from "../support/opensandbox/process-vms.ts";
import { newName } from "../support/opensandbox/under-test.ts";
import { useOpenSandbox } from "../support/opensandbox/use-opensandbox.ts";
import { troubleOf } from "../support/opensandbox/use-server.ts";
import { createIdleVms } from "../support/opensandbox/vm-host.ts";

const { signal } = new AbortController();
/** Longer than a place takes that comes free. */
const poolSeconds = 10;

describe("a played pool of a real OpenSandbox server", () => {
  const lab = useOpenSandbox({ createSeconds: 20, poolSeconds });
  let api: OpenSandboxApi;
  let pool: PoolController;
  let vms: ReturnType<typeof createIdleVms>;

  beforeEach(async () => {
    const { url, key } = lab.server;
    const read = () => Promise.resolve(key);
    api = createHttpApi({ url, key: read, requestId: randomUUID, clock: systemClock });
    vms = createIdleVms();
    pool = await lab.pool({ pool: newName("pool"), capacity: 1, host: vms });
  });
  afterEach(async () => {
    await pool[Symbol.asyncDispose]();
    await lab.removeAll();
    api.close();
  });

  const wanted = (more: Partial<NewSandbox> = {}): NewSandbox => ({
    pool: pool.pool,
    entrypoint: ["gitea-opensandbox-runner"],
    environment: { CI_ASSIGNMENT_ID: "gitea-task-1" },
    metadata: { owner: "a" },
    timeoutSeconds: 600,
    ...more,
  });
  const made = async (more?: Partial<NewSandbox>) => await api.create(wanted(more), signal);
  const becomes = (id: string, state: string) =>
    eventually(`${id} is ${state}`, async () => ((await api.get(id, signal))?.state ?? "gone") === state);
  const tasksOf = (id: string) => vms.tasks.get(pool.vmOf(id)?.name ?? "none") ?? [];

  it("gives a sandbox a VM, tells it its task, and counts its places", async () => {
    const { id, state } = await made();
    assert.equal(state, "running");
    await eventually("the task is there", () => tasksOf(id).length === 1);
    assert.deepEqual(tasksOf(id), [
      {
        command: ["/bin/sh", "-c", "exec /opt/opensandbox/bootstrap.sh gitea-opensandbox-runner"],
        environment: { CI_ASSIGNMENT_ID: "gitea-task-1", OPENSANDBOX_ID: id },
      },
    ]);
    assert.equal((await api.get(id, signal))?.isAllocated, true);
    await eventually("the pool is counted", async () => {
      const { places } = (await api.pool(pool.pool, signal)) ?? {};
      return JSON.stringify(places) === JSON.stringify({ total: 1, allocated: 1, available: 0 });
    });
  });

  it("has no place for the next one until the first is gone", async () => {
    const { id } = await made();
    const full = await troubleOf(made());
    assert.deepEqual([full.trouble, full.retryAfterMs], ["no_capacity", poolSeconds * 1000]);
    const next = made();
    await eventually("the next one waits", async () => (await lab.resources.list(signal)).length === 2);
    await api.delete(id, signal);
    assert.equal((await next).state, "running");
    assert.equal(pool.vmOf(id), undefined);
  });

  it("has more places when it is told to", async () => {
    await made();
    await pool.setCapacity(2);
    assert.equal((await made()).state, "running");
    assert.equal(pool.held().length, 2);
  });

  it("tells of a VM that has ended by the state before it had one", async () => {
    const { id } = await made();
    await pool.vmOf(id)?.stop();
    await becomes(id, "pending");
    assert.equal((await api.get(id, signal))?.isAllocated, true);
  });

  it("tells of a VM that failed before it was ready", async () => {
    pool.failNext("no memory for the guest");
    assert.equal((await troubleOf(made())).trouble, "vm_failed");
    assert.equal((await made()).state, "running");
  });

  it("tells a VM its task twice, or never, if it is told to", async () => {
    await pool.setCapacity(2);
    pool.setInjection("twice");
    const twice = await made();
    await eventually("it is told twice", () => tasksOf(twice.id).length === 2);
    pool.setInjection("never");
    const never = await made();
    assert.equal((await api.get(never.id, signal))?.state, "running");
    // Whoever is told at all is told before an end is.
    await pool.vmOf(never.id)?.stop();
    await becomes(never.id, "pending");
    assert.deepEqual(tasksOf(never.id), []);
  });

  it("ends the VM of a sandbox that is deleted, and can be kept from it", async () => {
    const { id } = await made();
    const vm = pool.vmOf(id);
    pool.holdDeletions(true);
    assert.equal(await api.delete(id, signal), true);
    await becomes(id, "stopping");
    assert.equal(vm?.hasEnded(), false);
    pool.holdDeletions(false);
    await becomes(id, "gone");
    assert.equal(vm?.hasEnded(), true);
  });

  it("deletes a sandbox whose time is over", async () => {
    const { id } = await made();
    const body = { spec: { expireTime: new Date(Date.now() - 1_000).toISOString() } };
    const content = { body, type: "application/merge-patch+json" };
    await lab.apiServer.api.ask("PATCH", `${lab.resources.path}/${id}`, signal, content);
    await becomes(id, "gone");
  });

  it("goes on where it was when the API server was away", async () => {
    const { id } = await made();
    const { apiServer } = lab.apiServer.components;
    await apiServer.stop();
    await pool.vmOf(id)?.stop();
    await apiServer.start(signal);
    await eventually("the server is over it", () =>
      api.get(id, signal).then(
        () => true,
        (error: unknown) => !(error instanceof OpenSandboxError && error.trouble === "outage"),
      ),
    );
    await becomes(id, "pending");
  });

  describe("whose VMs are real processes", () => {
    let real: PoolController;

    before(function () {
      const obstacle = processVmObstacle();
      if (obstacle !== undefined) skipFor(this, obstacle);
    });
    beforeEach(async () => {
      const folder = path.join(lab.folder.path, newName("vms"));
      const host = createProcessVms({ folder, image: { programs: [] } });
      real = await lab.pool({ pool: newName("real"), capacity: 1, host });
    });
    afterEach(() => real[Symbol.asyncDispose]());

    it("runs the sandbox's entrypoint, as the job's user if that says so, until it is deleted", async () => {
      const script = 'echo "$CI_ASSIGNMENT_ID as $(id -u)"; exec sleep 87654';
      const entrypoint = ["setpriv", "--reuid=2000", "--regid=2000", "--clear-groups", "sh", "-c", script];
      const { id } = await made({ pool: real.pool, entrypoint });
      const vm = real.vmOf(id) as ProcessVm;
      const log = path.join(vm.folder, "task-1.log");
      await eventually("it has spoken", async () => {
        const text = await readFile(log, "utf8").catch(() => "");
        return text === "gitea-task-1 as 2000\n";
      });
      const sleeping = () => processesMentioning("sleep\u000087654").length;
      await eventually("it sleeps", () => sleeping() > 0);
      assert.equal(sleeping(), 1);
      await api.delete(id, signal);
      await becomes(id, "gone");
      assert.equal(sleeping(), 0);
    });

    it("is told of a VM that ended itself", async () => {
      // One that ends at once may never be seen ready, and its create waits in vain.
      const script = "until [ -e end ]; do sleep 0.1; done; kill 1";
      const { id } = await made({ pool: real.pool, entrypoint: ["sh", "-c", script] });
      await writeFile(path.join((real.vmOf(id) as ProcessVm).folder, "home/end"), "");
      await becomes(id, "pending");
      assert.equal((await api.get(id, signal))?.isAllocated, true);
    });
  });
});

import assert from "node:assert/strict";
import { before, describe, it } from "mocha";
import { useVmPlatform } from "../support/opensandbox/use-vm-platform.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
const job = (label: string) => `
  ${label}:
    runs-on: [self-hosted, ${label}]
    steps:
      - run: echo "on ${label}"
`;

describe("a controller for vm-dev", function () {
  this.timeout(300_000);
  const real = useVmPlatform();

  before("start the controller", async () => {
    const pool = await real.pool("dev-vm", 1);
    const tenant = { name: "dev", pool: pool.pool, capacity: 1, label: "vm-dev" } as const;
    await real.start(await createVmTenant(real.platform, tenant, signal));
  });

  it("takes jobs for vm-dev only: one for vm stays waiting in Gitea", async () => {
    const run = await pushRun(real.platform.admin, "labels", `on: push\njobs:${job("vm")}${job("vm-dev")}`);
    const states = async () =>
      (await run.jobs((jobs) => jobs.some(({ status }) => status === "completed"), 150_000)).map(
        ({ name, status, conclusion }) => [name, status, conclusion ?? ""],
      );
    const dev = (await states()).find(([name]) => name === "vm-dev");
    assert.deepEqual(dev, ["vm-dev", "completed", "success"]);
    await untilNoVmLeft(real.platform);
    const waiting = (await states()).find(([name]) => name === "vm");
    assert.equal(waiting?.[1], "queued");
  });
});

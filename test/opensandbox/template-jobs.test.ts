import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "mocha";

import { annotationLabels, annotationsIn } from "../../controller/backends/vm/annotation-labels.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { eventually } from "../support/eventually.ts";
import type { PoolController } from "../support/opensandbox/pool-controller.ts";
import { withTemplateAgents } from "../support/opensandbox/template-agents.ts";
import { useVmPlatform, type VmController } from "../support/opensandbox/use-vm-platform.ts";
import type { VmHost } from "../support/opensandbox/vm-host.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { trustDomain } from "../support/opensandbox/vm-platform.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { pushRun } from "../support/push-run.ts";

const { signal } = new AbortController();
const overMs = 180_000;
const idOf = (repository: string) => parseSpiffeId(`spiffe://${trustDomain}/ci/demo/${repository}/build`);
const others = idOf("stranger");

const workflow = `
on: push
jobs:
  build:
    runs-on: [self-hosted, vm]
    steps:
      - run: |
          echo "uid $(id -u)"
          spire-agent api fetch x509 -socketPath "\${SPIFFE_ENDPOINT_SOCKET#unix://}" | grep -F 'SPIFFE ID'
          echo "it runs"
`;

describe("jobs in VMs whose template brings the agent and its socket", function () {
  this.timeout(600_000);
  const real = useVmPlatform();
  let pool: PoolController;
  let controller: VmController;
  let stored: "as it was" | "another's";

  before("start the pool", async () => {
    const { lab, spire, vms } = real.platform;
    const host = withTemplateAgents(vms, spire, storedIds);
    const spoiling: VmHost = {
      start: async (...of) => {
        if (stored === "another's") await tamper();
        return host.start(...of);
      },
    };
    pool = await lab.pool({ pool: "template", capacity: 2, host: spoiling });
  });
  /** Starts a controller that gives a VM so long to claim its job. */
  const start = async (name: string, startMs: number) => {
    const environment = await createVmTenant(real.platform, { name, pool: pool.pool }, signal);
    const { SPIRE_SERVER_API: _server, SPIRE_CLASS: _class, ...rest } = environment;
    const RUNNER_TIMES = JSON.stringify({ startMs, claimMs: 1_000, againMs: 500, attemptDelayMs: 500 });
    controller = await real.start({ ...rest, VM_IDENTITY: "template", RUNNER_TIMES });
  };
  afterEach(async () => {
    stored = "as it was";
    await controller?.process.stop();
  });
  after(() => pool?.[Symbol.asyncDispose]());

  const isKey = (key: string) => key.endsWith("/spiffe-id");
  /** What stands on the sandboxes, by which the template's maker gives identities. */
  const storedIds = async () => {
    const sandboxes = await real.platform.lab.resources.list(signal);
    return sandboxes
      .flatMap(({ labels }) => Object.entries(annotationsIn(labels)))
      .filter(([key]) => isKey(key))
      .map(([, id]) => parseSpiffeId(id));
  };
  /** Writes another job's identity on all sandboxes, as nobody but us should be able to. */
  const tamper = async () => {
    const { resources } = real.platform.lab;
    for (const { id, labels } of await resources.list(signal)) {
      const annotations = Object.entries(annotationsIn(labels));
      const changed = annotations.map(([key, value]) => [key, isKey(key) ? others : value]);
      await resources.label(id, annotationLabels(Object.fromEntries(changed)), signal);
    }
  };

  it("B-62 have the identity that the template gives them, and leave nothing", async () => {
    stored = "as it was";
    // Longer than a VM takes to its claim on a busy machine.
    await start("template", 120_000);
    const run = await pushRun(real.platform.admin, "template", workflow);
    const [job] = await run.jobs(undefined, overMs);
    assert.ok(job !== undefined);
    const log = await run.log(job);
    assert.equal(job.conclusion, "success", log.join("\n"));
    assert.ok(log.includes("uid 2000"), log.join("\n"));
    assert.ok(
      log.some((row) => row.endsWith(idOf("template"))),
      log.join("\n"),
    );
    assert.equal(log.filter((row) => row === "it runs").length, 1);
    await untilNoVmLeft(real.platform);
    await eventually("its places are free", () => pool.held().length === 0);
    assert.ok(controller.lines.some(({ event }) => event === "identity_bound"));
    assert.equal(controller.lines.filter(({ event }) => event === "executor_created").length, 1);
  });

  it("B-62 are not run where the stored identity is another's, and fail with that reason", async () => {
    stored = "another's";
    await start("replaced", 20_000);
    const run = await pushRun(real.platform.admin, "replaced", workflow);
    const [job] = await run.jobs(undefined, overMs);
    assert.ok(job !== undefined);
    const log = (await run.log(job)).join("\n");
    assert.equal(job.conclusion, "failure", log);
    assert.match(log, /^This job never started: .*$/m);
    assert.match(log, /its metadata does not hold/);
    assert.match(log, /Reason: too_slow\./);
    assert.ok(!log.includes("it runs"), log);
    const reasons = controller.lines.filter(
      ({ msg }) => msg === "executor with invalid metadata takes a slot",
    );
    assert.equal(new Set(reasons.map(({ executor }) => executor)).size, 3, "one for each attempt");
    for (const { reason } of reasons)
      assert.match(String(reason), /spiffe-id is "spiffe:\/\/[^"]*stranger\/build", which is not that of/);
    await untilNoVmLeft(real.platform);
    await eventually("its places are free", () => pool.held().length === 0);
  });
});

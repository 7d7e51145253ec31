import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { runToEnd } from "../../scripts/peers/run-to-end.ts";
import { assertGoldenPlan } from "../support/infra/golden-plan.ts";
import { useClusterStacks } from "../support/infra/use-cluster-stacks.ts";

const program = path.join(import.meta.dirname, "../../scripts/preview.ts");

describe("plans of the repository's stacks, on a real API server", () => {
  const stacks = useClusterStacks();
  const preview = async (name: "prod" | "dev") => {
    const { environment } = stacks.pulumi;
    const command = { program: process.execPath, args: [program, name], environment, deadline: 480_000 };
    return await runToEnd({ ...command, folder: stacks[name].folder }, new AbortController().signal);
  };

  for (const name of ["prod", "dev"] as const)
    it(`B-106 make all of ${name} as it is written down`, async () => {
      await assertGoldenPlan(name, await stacks[name].plan());
    });

  it("B-107 are told as comments, and nothing is made", async () => {
    const { exitCode, stdout, stderr } = await preview("dev");
    assert.equal(exitCode, 0, stderr);
    assert.match(stdout, /^## Plan of stack dev\n\n\d+ to create\.\n/);
    assert.match(stdout, /\+ kubernetes:apps\/v1:Deployment: \(create\)/);
    const { api } = stacks.kubernetes;
    const namespace = "/api/v1/namespaces/gitea-dynamic-runner-dev";
    assert.equal((await api.ask("GET", namespace, AbortSignal.timeout(30_000))).status, 404);
    assert.deepEqual(await stacks.streams(), []);
  });

  it("B-107 see what was changed by hand in the cluster", async () => {
    await stacks.dev.done("up", "--yes");
    assert.match((await preview("dev")).stdout, /\n\n\d+ unchanged\.\n\n/);
    const pool = "/apis/sandbox.opensandbox.io/v1alpha1/namespaces/opensandbox/pools/ci-vm-dev";
    const changed = { spec: { capacitySpec: { poolMax: 9 } } };
    await stacks.kubernetes.api.merge(pool, changed, AbortSignal.timeout(30_000));
    const { exitCode, stdout } = await preview("dev");
    assert.equal(exitCode, 0, stdout);
    assert.match(stdout, /poolMax *: 9 => 1/);
    assert.match(stdout, /\n\n1 to update, \d+ unchanged\.\n\n/);
  });

  it("B-107 are none where the cluster cannot be reached, also of a stack that has nothing yet", async () => {
    await stacks.kubernetes.components.apiServer.stop();
    for (const name of ["prod", "dev"] as const) {
      const { exitCode, stdout, stderr } = await preview(name);
      assert.equal(exitCode, 1, stdout);
      assert.match(stdout, /\*\*No plan:\*\* the cluster cannot be reached, so nobody knows what is there\./);
      assert.match(stderr, /^preview: the cluster cannot be reached/);
    }
    assert.match(await stacks.prod.refused("preview"), /unreachable cluster|cluster is unreachable/);
    await stacks.kubernetes.components.apiServer.start(AbortSignal.timeout(180_000));
  });
});

import assert from "node:assert/strict";
import path from "node:path";
import { before, describe, it } from "mocha";
import { findInFiles } from "../support/find-in-files.ts";
import { objectsOfPulumi, versions } from "../support/infra/cluster-objects.ts";
import { repositoryStack } from "../support/infra/repository-stack.ts";
import { useClusterStacks } from "../support/infra/use-cluster-stacks.ts";
import type { Stack } from "../support/infra/use-pulumi.ts";
import { planted } from "../support/infra/use-queue-stack.ts";

/** The exit code for changes where none are expected. */
const changesExitCode = 7;
const lookForDrift = ["--run-program", "--preview-only", "--expect-no-changes"] as const;
const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/gitea-actions/roles";
const pools = "/apis/sandbox.opensandbox.io/v1alpha1/namespaces/opensandbox/pools";

/** Nobody runs the Pods of its Deployments: a kubelet is played, see the API server's hooks. */
describe("the platform through Pulumi's engine, on a real API server with controllers", () => {
  const stacks = useClusterStacks();
  const { configure, streams } = stacks;
  const soon = () => AbortSignal.timeout(30_000);
  const objects = () => objectsOfPulumi(stacks.kubernetes.api);
  const ofDev = (place: string) => place.includes("-dev");
  const ofProd = async () => versions(await objects(), (place) => !ofDev(place));
  const unchanged = async (stack: Stack) => {
    await stack.done("preview", "--expect-no-changes");
    await stack.done("refresh", ...lookForDrift);
  };
  const urnOf = async (stack: Stack, end: string) =>
    (await stack.resources()).map(({ urn }) => urn).find((urn) => urn.endsWith(end)) ?? assert.fail(end);

  before("bring both stacks up", async function () {
    this.timeout(1_200_000);
    await stacks.prod.done("up", "--yes");
    await stacks.dev.done("up", "--yes");
  });

  it("B-106 is two of prod and dev side by side, and second previews find nothing to do", async () => {
    const made = [...(await objects()).keys()];
    const [dev, prod] = [made.filter(ofDev), made.filter((place) => !ofDev(place))];
    assert.ok(prod.includes("/api/v1/namespaces/gitea-actions"), prod.join("\n"));
    assert.ok(dev.includes(`${pools}/ci-vm-dev`) && prod.includes(`${pools}/ci-vm`), made.join("\n"));
    assert.deepEqual(await streams(), [
      "CI_RUNNER",
      "CI_RUNNER_DEV",
      "CI_RUNNER_DEV_EVENTS",
      "CI_RUNNER_EVENTS",
      "KV_CI_RUNNER_DEV_STATE",
      "KV_CI_RUNNER_STATE",
    ]);
    await unchanged(stacks.prod);
    await unchanged(stacks.dev);
  });

  it("registers nothing that builds images where these are published", async () => {
    const types = (await stacks.prod.resources()).map(({ type }) => type);
    assert.deepEqual(
      types.filter((type) => type.includes("docker")),
      [],
    );
  });

  it("changes a capacity in place, wherever it stands, and nothing else", async () => {
    const { vm } = repositoryStack("prod", "");
    const capacities = { pod: { capacity: 7 }, vm: { ...(vm as object), capacity: 3 } };
    await configure("prod", capacities);
    const old = await ofProd();
    const plan = await stacks.prod.plan();
    const changes = plan.map(
      ({ op, resource, detailedDiff }) => `${op} ${resource}: ${Object.keys(detailedDiff ?? {}).join()}`,
    );
    assert.deepEqual(changes.toSorted(), [
      "update jetstream:index:Consumer pod: maxAckPending",
      "update jetstream:index:Consumer vm: maxAckPending",
      'update kubernetes:apps/v1:Deployment controller: spec.template.metadata.annotations["ci.ddupan.top/configuration"]',
      "update kubernetes:core/v1:ConfigMap configuration: data.POD_CAPACITY,data.VM_CAPACITY",
      "update kubernetes:sandbox.opensandbox.io/v1alpha1:Pool pool: spec.capacitySpec.poolMax",
    ]);
    await stacks.prod.done("up", "--yes");
    const now = await ofProd();
    const changed = Object.keys(now).filter(
      (place) => JSON.stringify(now[place]) !== JSON.stringify(old[place]),
    );
    assert.equal(changed.length, 3, changed.join("\n"));
    await unchanged(stacks.prod);
  });

  it("is found to have drifted by a refresh that looks, and healed by up", async () => {
    const { api } = stacks.kubernetes;
    const wanted = await ofProd();
    const role = await api.read(`${roles}/gitea-dynamic-runner`, soon());
    const rules = role["rules"] as readonly { readonly verbs: readonly string[] }[];
    const fewer = rules.map((rule) => ({ ...rule, verbs: rule.verbs.filter((verb) => verb !== "delete") }));
    await api.merge(`${roles}/gitea-dynamic-runner`, { rules: fewer }, soon());
    await api.merge(`${pools}/ci-vm`, { spec: { capacitySpec: { poolMax: 9 } } }, soon());
    await stacks.server.consumers.update("CI_RUNNER", "pod", { max_ack_pending: 99 });
    // What Pulumi remembers is as it was.
    await stacks.prod.done("preview", "--expect-no-changes");
    const { exitCode, stdout } = await stacks.prod.run("refresh", "--diff", ...lookForDrift);
    assert.equal(exitCode, changesExitCode, stdout);
    assert.match(stdout, /poolMax *: 3 => 9/);
    assert.match(stdout, /maxAckPending: 7 => 99/);
    assert.match(stdout, /- .*"delete"/);
    assert.match(stdout, /~ 3 to update/);
    await stacks.prod.done("up", "--yes", "--refresh", "--run-program");
    assert.deepEqual(await ofProd(), wanted);
    const { config } = await stacks.server.consumers.info("CI_RUNNER", "pod");
    assert.equal(config.max_ack_pending, 7);
    await unchanged(stacks.prod);
  });

  it("B-106 takes dev away, of which nothing is left, and nothing of prod is touched", async () => {
    const prod = await ofProd();
    // The pool is kept whatever a stack says: to remove it ends VMs with jobs in them.
    const said = await stacks.dev.refused("destroy", "--yes");
    assert.match(said, /pulumi state unprotect/);
    assert.match(said, /Pool::pool/);
    await stacks.dev.done("state", "unprotect", "--yes", await urnOf(stacks.dev, "Pool::pool"));
    await stacks.dev.done("destroy", "--yes");
    assert.deepEqual(await stacks.dev.resources(), []);
    assert.deepEqual([...(await objects()).keys()].filter(ofDev), []);
    assert.deepEqual(await streams(), ["CI_RUNNER", "CI_RUNNER_EVENTS", "KV_CI_RUNNER_STATE"]);
    assert.deepEqual(await ofProd(), prod);
    await unchanged(stacks.prod);
  });

  it("keeps what prod protects, says how to let it go, and then leaves nothing", async () => {
    const old = await ofProd();
    const said = await stacks.prod.refused("destroy", "--yes");
    assert.match(said, /pulumi state unprotect/);
    const kept = (await stacks.prod.resources()).filter(({ protect }) => protect === true);
    assert.deepEqual(kept.map(({ urn }) => urn.split("$").at(-1) ?? "").toSorted(), [
      "jetstream:index:KeyValue::state",
      "jetstream:index:Stream::assignments",
      "kubernetes:core/v1:Namespace::controller",
      "kubernetes:core/v1:Namespace::executors",
      "kubernetes:sandbox.opensandbox.io/v1alpha1:Pool::pool",
    ]);
    assert.deepEqual(await ofProd(), old);
    await stacks.prod.done("state", "unprotect", "--all", "--yes");
    await stacks.prod.done("destroy", "--yes");
    assert.deepEqual([...(await objects()).keys()], []);
    assert.deepEqual(await streams(), []);
  });

  it("leaves secrets in no file, and in nothing that is said", async () => {
    const { folder, told } = stacks.pulumi;
    for (const [name, secret] of Object.entries(planted)) {
      for (const place of ["state", "home", "pulumi-home", "temporary", "platform/stacks"])
        assert.deepEqual(
          await findInFiles(path.join(folder, place), secret, (file) => file.startsWith("plugins/")),
          [],
          `${name} in ${place}`,
        );
      assert.ok(!told.join("\n").includes(secret), `${name} was said`);
    }
    // It was looked for in the right places.
    assert.ok((await findInFiles(path.join(folder, "state"), "ciphertext")).length > 1);
    assert.ok((await findInFiles(path.join(folder, "state", ".pulumi", "history"), "ci-vm")).length > 1);
  });
});

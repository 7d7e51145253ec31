import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "mocha";
import { z } from "zod";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { type RegisteredRunner, registerRunner } from "../../scripts/peers/gitea-api/register-runner.ts";
import { newCapabilityKey } from "../../scripts/quick-start/secrets.ts";
import { eventually } from "../support/eventually.ts";
import { askForIdentity, type Difference } from "../support/infra/asks-for-identity.ts";
import { type ControllerPod, controllerPods, linesOf, podLog } from "../support/infra/controller-pods.ts";
import { serveServiceNames } from "../support/infra/service-names.ts";
import { type Stack, usePulumi } from "../support/infra/use-pulumi.ts";
import { trustDomain } from "../support/kubernetes/cluster-platform.ts";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";

const own = "gitea-dynamic-runner-lab";
const executors = "gitea-actions-lab";
const controllerId = `spiffe://${trustDomain}/${own}`;
const jobsMs = 120_000;
const startMs = 180_000;
const soon = () => AbortSignal.timeout(60_000);

const roleShape = z.object({
  rules: z.array(z.looseObject({ resources: z.array(z.string()), verbs: z.array(z.string()) })),
});

const workflow = `
on: push
jobs:
  first:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "uid $(id -u)"
          spire-agent api fetch x509 -socketPath "\${SPIFFE_ENDPOINT_SOCKET#unix://}" | grep -F 'SPIFFE ID'
`;

/**
 * A stack is brought up on a real cluster, and its Deployment's Pods run jobs of the real Gitea: with the configuration,
 * secrets, service account and SPIFFE ID that were provisioned, and nothing else. What the lab lacks:
 *
 * - A registry: images are put together of the sources on the lab's own Debian, and given to the node. They have the
 *   digests that the stack names.
 * - A driver of SPIFFE's for CSI, of which there is a stand-in; and whoever enforces NetworkPolicies.
 * - CoreDNS and kube-proxy: somebody of ours knows the names of headless Services, and one rule leads to the API server.
 */
describe("a controller as it was provisioned, on a real cluster", function () {
  this.timeout(300_000);
  const cluster = useCluster({ natsForPods: true });
  const pulumi = usePulumi({
    providers: ["pulumi-resource-kubernetes"],
    besides: () => ({ KUBECONFIG: cluster.platform.kubernetes.adminKubeconfig }),
  });
  const stand = new AsyncDisposableStack();
  let runner: RegisteredRunner;
  let stack: Stack;

  const pods = () => controllerPods(cluster.platform.kubernetes.api, own);
  const linesOfAll = async () => {
    const { api } = cluster.platform.kubernetes;
    const logs = await Promise.all((await pods()).map(({ name }) => podLog(api, { namespace: own, name })));
    return logs.flatMap(linesOf);
  };
  const entries = async () => {
    const { spire, agentId } = cluster.platform.kubernetes;
    const { serverSocket, peers } = spire;
    const all = createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket });
    return (await all.below(agentId, soon())).filter(({ spiffeId }) => spiffeId === controllerId);
  };

  before("bring a stack up", async function () {
    this.timeout(600_000);
    const { kubernetes, gitea, nats } = cluster.platform;
    stand.use(await serveServiceNames(kubernetes.api, kubernetes.hostAddress));
    const image = named(await kubernetes.addControllerImage(soon()));
    const executor = named(kubernetes.executorByDigest);
    runner = await registerRunner(gitea, { name: "lab", labels: [] }, soon());
    const secrets = {
      giteaRunnerToken: runner.token,
      natsPassword: nats.password,
      capabilityKeys: newCapabilityKey(),
    };
    stack = await pulumi.stack("lab", { program: "platform", secrets });
    await stack.configure({
      suffix: "lab",
      kubeContext: "cluster",
      components: ["scheduler", "pod-worker"],
      gitea: { url: gitea.url, runnerUuid: runner.uuid },
      nats: { url: nats.url, user: nats.user },
      spire: {
        trustDomain,
        cluster: kubernetes.clusterName,
        agentId: `spiffe://${trustDomain}/spire/agent/k8s_psat/{cluster}/{nodeUid}`,
      },
      pod: { capacity: 2 },
      images: {
        source: "published",
        pullRegistry: image.registry,
        controller: { repository: image.repository, digest: image.digest },
        runner: { repository: executor.repository, digest: executor.digest },
      },
    });
    await stack.done("up", "--yes");
  });
  afterEach("tell what its Pods logged", async function () {
    if (this.currentTest?.state !== "failed") return;
    for (const line of (await linesOfAll()).slice(-60)) process.stderr.write(`${JSON.stringify(line)}\n`);
  });
  after("know no names any more", () => stand.disposeAsync());

  it("B-100 B-101 B-103 is ready, says the kubelet, and one of its Pods leads", async () => {
    const there = await pods();
    assert.deepEqual(
      there.map(({ isReady, restarts }) => [isReady, restarts]),
      [
        [true, 0],
        [true, 0],
      ],
    );
    const leads = async () => (await linesOfAll()).filter(({ msg }) => msg === "runner started").length === 1;
    await eventually("one of the controllers leads", leads, startMs);
  });

  it("B-100 B-101 B-103 runs a job of the real Gitea in a real Pod, and leaves nothing of it", async () => {
    const { kubernetes } = cluster.platform;
    const run = await cluster.push("provisioned", workflow);
    const [job] = await run.jobs(undefined, jobsMs);
    assert.ok(job !== undefined);
    assert.equal(job.conclusion, "success", (await run.log(job)).join("\n"));
    const log = (await run.log(job)).join("\n");
    assert.match(log, /^uid 2000$/m);
    assert.match(log, /SPIFFE ID:\s+spiffe:\/\/cluster\.example\/ci\/demo\/provisioned\/first/);
    await untilNothingLeft(kubernetes, executors);
    const trouble = (await linesOfAll()).filter(({ level }) => level === "error" || level === "warn");
    assert.deepEqual(trouble, []);
  });

  it("B-24 gets its SPIFFE ID from what SPIRE makes of the ClusterSPIFFEID, for these Pods alone", async () => {
    const { clusterName } = cluster.platform.kubernetes;
    const registered = await entries();
    const uids = (await pods()).map(({ uid }) => `k8s:pod-uid:${uid}`);
    assert.deepEqual(
      new Set(registered.map(({ selectors }) => selectors.find((one) => uids.includes(one)))),
      new Set(uids),
    );
    assert.equal(registered.length, uids.length);
    // Of the spire-controller-manager's.
    for (const { id } of registered) assert.ok(id.startsWith(`${clusterName}.`), id);
  });

  it("shares its SPIFFE ID with no Pod of another service account, label, container or namespace", async () => {
    const { api } = cluster.platform.kubernetes;
    const ask = async (name: string, difference: Difference) =>
      await askForIdentity(api, { namespace: own, name: own }, name, difference, soon());
    const others = await Promise.all([
      ask("another-account", { serviceAccountName: "default" }),
      ask("no-label", { labels: {} }),
      ask("another-container", { containerName: "sidecar" }),
      ask("another-namespace", { namespace: executors, serviceAccountName: "gitea-task-executor" }),
    ]);
    const denials = async (pod: (typeof others)[number]) => {
      const log = await podLog(api, pod);
      assert.doesNotMatch(log, /SPIFFE ID/, pod.name);
      return log.split("no identity issued").length - 1;
    };
    for (const other of others)
      await eventually(`${other.name} asks`, async () => (await denials(other)) > 0);
    const same = await ask("same", {});
    const given = new RegExp(`SPIFFE ID:\\s+${controllerId}\\n`);
    await eventually("a Pod of the same kind has it", async () => given.test(await podLog(api, same)));
    for (const other of others) {
      const sofar = await denials(other);
      await eventually(`${other.name} asks once more`, async () => (await denials(other)) > sofar + 1);
    }
    for (const { namespace, name } of [...others, same])
      await api.remove(`/api/v1/namespaces/${namespace}/pods/${name}`, soon());
  });

  it("B-103 says which verb is missing when one is taken from its Role, and ends, until Pulumi has looked", async () => {
    const { api } = cluster.platform.kubernetes;
    const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${executors}/roles/${own}`;
    const { rules } = roleShape.parse(await api.read(role, soon()));
    const fewer = rules.map((rule) => ({
      ...rule,
      verbs: rule.verbs.filter((verb) => !(rule.resources.includes("pods") && verb === "patch")),
    }));
    await api.merge(role, { rules: fewer }, soon());
    const [stopped] = await pods();
    assert.ok(stopped !== undefined);
    await api.remove(`/api/v1/namespaces/${own}/pods/${stopped.name}`, soon());
    let ended: ControllerPod | undefined;
    const hasEnded = async () => {
      ended = (await pods()).find(({ exitCode }) => exitCode === 1);
      return ended !== undefined;
    };
    await eventually("the new Pod has ended, and begun again", hasEnded, startMs);
    assert.ok(ended !== undefined);
    const lines = linesOf(await podLog(api, { namespace: own, name: ended.name }, true));
    const errors = lines.filter(({ level }) => level === "error");
    assert.match(
      JSON.stringify(errors),
      new RegExp(`may not patch pods in namespace ${executors}: needed to`),
    );
    assert.equal(errors.length, 1);
    await stack.done("up", "--yes", "--refresh", "--run-program");
    assert.deepEqual(roleShape.parse(await api.read(role, soon())).rules, rules);
    const areReady = async () => (await pods()).every(({ isReady }) => isReady);
    await eventually("its Pods are ready again", areReady, startMs);
  });

  it("leaves nothing in the cluster when its stack is taken away", async () => {
    await stack.done("destroy", "--yes");
    const { api } = cluster.platform.kubernetes;
    for (const place of [
      `/api/v1/namespaces/${own}`,
      `/api/v1/namespaces/${executors}`,
      `/apis/spire.spiffe.io/v1alpha1/clusterspiffeids/${own}`,
      `/apis/rbac.authorization.k8s.io/v1/clusterroles/${own}`,
    ])
      assert.equal((await api.ask("GET", place, soon())).status, 404, place);
    await eventually("its Pods are nobody to SPIRE", async () => (await entries()).length === 0);
  });
});

/** The parts of a reference by digest, as a stack's settings have them. */
function named(reference: string) {
  const [, registry = "", repository = "", digest = ""] = /^([^/]+)\/(.+)@(.+)$/.exec(reference) ?? [];
  return { registry, repository, digest };
}

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { type RegisteredRunner, registerRunner } from "../../scripts/peers/gitea-api/register-runner.ts";
import { newCapabilityKey } from "../../scripts/quick-start/secrets.ts";
import { playKubelet } from "../support/infra/played-kubelet.ts";
import { provisionedController } from "../support/infra/provisioned-controller.ts";
import { type Stack, usePulumi } from "../support/infra/use-pulumi.ts";
import { trustDomain } from "../support/kubernetes/cluster-platform.ts";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";

const own = "gitea-dynamic-runner-lab";
const executors = "gitea-actions-lab";
const jobsMs = 120_000;
const soon = () => AbortSignal.timeout(60_000);
const digest = `sha256:${"a".repeat(64)}`;

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
 * A stack is brought up on a real cluster, and the controller starts with what its Deployment, ConfigMap, Secret and service
 * account give it. What the lab lacks:
 *
 * - A registry, so there is no image of the controller. Its Pod fits no node (`controller.nodeSelector`) and is said to be
 *   ready; the controller is a process of this machine, which has the Pod's variables and files, and a token of its service
 *   account. The executors' image is the lab's.
 * - Names of services: executors find the facade's in their /etc/hosts (`POD_PATCH_FILE`), at an address of this machine.
 *   So it listens there alone, at the port that was provisioned.
 * - The controller's SVID comes from an agent that knows processes, by an entry of the ID that was provisioned: what
 *   spire-controller-manager makes of the ClusterSPIFFEID is for Pods.
 */
describe("a controller as it was provisioned, on a real cluster", function () {
  this.timeout(300_000);
  const cluster = useCluster();
  const pulumi = usePulumi({
    providers: ["pulumi-resource-kubernetes"],
    besides: () => ({ KUBECONFIG: cluster.platform.kubernetes.adminKubeconfig }),
  });
  const played = new AsyncDisposableStack();
  let runner: RegisteredRunner;
  let stack: Stack;
  let environment: Readonly<Record<string, string>>;

  const start = (ready?: RegExp) =>
    cluster.start({
      tenant: { namespace: executors, runner, environment: () => Promise.resolve(environment) },
      ...(ready === undefined ? {} : { ready }),
    });

  before("bring a stack up", async function () {
    this.timeout(600_000);
    const { kubernetes, gitea, nats } = cluster.platform;
    played.use(playKubelet(kubernetes.api, [own]));
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
      controller: { replicas: 1, nodeSelector: { "example.org/controllers": "elsewhere" } },
      images: {
        source: "published",
        pullRegistry: "registry.example.org",
        controller: { digest },
        runner: { digest },
      },
    });
    await stack.done("up", "--yes");
  });
  before("take what was provisioned", async () => {
    const { kubernetes, folder, addresses } = cluster.platform;
    const { api, spire } = kubernetes;
    const place = { folder: path.join(folder, "provisioned"), agentSocket: spire.agentSocket };
    const provisioned = await provisionedController(api, { namespace: own, name: own }, place);
    const { hostname, port } = new URL(provisioned.environment["RUNNER_FACADE_URL"] ?? "");
    const patch = path.join(folder, "pod-patch.json");
    const [ip = ""] = addresses;
    const container = { name: "executor", imagePullPolicy: "IfNotPresent" };
    const hostAliases = [{ ip, hostnames: [hostname] }];
    await writeFile(patch, JSON.stringify({ spec: { hostAliases, containers: [container] } }));
    environment = {
      ...provisioned.environment,
      KUBECONFIG: await kubernetes.kubeconfigFor(provisioned.account, soon()),
      RUNNER_FACADE_LISTEN: `${ip}:${port}`,
      HEALTH_LISTEN: `${ip}${provisioned.environment["HEALTH_LISTEN"] ?? ""}`,
      POD_EXECUTOR_IMAGE: kubernetes.executorImage,
      POD_DNS_POLICY: "Default",
      POD_PATCH_FILE: patch,
    };
    const { serverSocket, parentId, peers } = spire;
    await createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket }).create(
      {
        id: "provisioned",
        spiffeId: parseSpiffeId(environment["RUNNER_FACADE_SPIFFE_ID"] ?? ""),
        parentId,
        selectors: [`unix:uid:${process.geteuid?.() ?? 0}`],
        x509TtlSeconds: 600,
      },
      soon(),
    );
  });
  after("let the Pods be", () => played.disposeAsync());

  it("B-100 B-101 B-103 runs a job of the real Gitea in a real Pod, and leaves nothing of it", async () => {
    const { kubernetes } = cluster.platform;
    const controller = await start();
    const run = await cluster.push("provisioned", workflow);
    const [job] = await run.jobs(undefined, jobsMs);
    assert.ok(job !== undefined);
    assert.equal(job.conclusion, "success", (await run.log(job)).join("\n"));
    const log = (await run.log(job)).join("\n");
    assert.match(log, /^uid 2000$/m);
    assert.match(log, /SPIFFE ID:\s+spiffe:\/\/cluster\.example\/ci\/demo\/provisioned\/first/);
    await untilNothingLeft(kubernetes, executors);
    await controller.process.stop();
    const trouble = controller.lines.filter(({ level }) => level === "error" || level === "warn");
    assert.deepEqual(trouble, []);
  });

  it("B-103 says which verb is missing when one is taken from its Role, and ends", async () => {
    const { api } = cluster.platform.kubernetes;
    const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${executors}/roles/${own}`;
    const { rules } = (await api.read(role, soon())) as unknown as {
      readonly rules: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
    };
    const fewer = rules.map((rule) => ({
      ...rule,
      verbs: rule.verbs.filter((verb) => !(rule.resources.includes("pods") && verb === "patch")),
    }));
    await api.merge(role, { rules: fewer }, soon());
    const ready = new RegExp(`may not patch pods in namespace ${executors}: needed to`);
    const { process: controller, lines } = await start(ready);
    assert.equal(await controller.exited, "exit code 1");
    assert.equal(lines.filter(({ level }) => level === "error").length, 1);
    await stack.done("up", "--yes", "--refresh", "--run-program");
    await (await start()).process.stop();
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
  });
});

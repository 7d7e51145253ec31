import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { startServer } from "../../scripts/peers/server-process.ts";
import { eventually } from "../support/eventually.ts";
import { startPodGate } from "../support/kubernetes/pod-gate.ts";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import { labelNode, podsOf, removePod, untilRow } from "../support/kubernetes/troubles.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";

const soon = () => AbortSignal.timeout(30_000);
const times = {
  claimMs: 1_000,
  againMs: 500,
  attemptDelayMs: 500,
  lingerMs: 4_000,
};
const workflow = (wait: string) => `on: push
jobs:
  test:
    runs-on: [self-hosted, pod]
    steps:
      - run: echo "it runs"; ${wait}
`;

type PodWithVariables = {
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly containers: readonly {
      readonly env: readonly { readonly name: string; readonly value: string }[];
    }[];
  };
};

describe("an attempt that was given up", function () {
  this.timeout(600_000);
  const cluster = useCluster();

  /** What has the Pod's capability and its job's identity starts on this machine, as the Pod would on its node. */
  const revive = async ({ spec }: PodWithVariables) => {
    const { folder, kubernetes, addresses } = cluster.platform;
    const variables = Object.fromEntries(
      spec.containers[0]?.env.map(({ name, value }) => [name, value]) ?? [],
    );
    const { serverSocket, parentId, agentSocket, peers } = kubernetes.spire;
    const entry = {
      id: "revived",
      spiffeId: parseSpiffeId(variables["CI_SPIFFE_ID"] ?? ""),
      parentId,
      selectors: [`unix:uid:${process.geteuid?.() ?? 0}`],
      x509TtlSeconds: 600,
    };
    await createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket }).create(entry, soon());
    const url = new URL(variables["RUNNER_FACADE_URL"] ?? "");
    const configuration = path.join(folder, "revived.yaml");
    await writeFile(configuration, "log: {level: info}\n");
    return await startServer({
      name: "the revived bootstrap",
      program: process.execPath,
      args: [path.resolve("controller/bootstrap/main.ts")],
      folder,
      environment: {
        ...variables,
        PATH: process.env["PATH"],
        // Names of the Pod's own.
        RUNNER_FACADE_URL: `https://${addresses[0] ?? ""}:${url.port}`,
        SPIFFE_ENDPOINT_SOCKET: `unix://${agentSocket}`,
        GITEA_RUNNER_BINARY: "/bin/false",
        GITEA_RUNNER_CONFIG_FILE: configuration,
      },
      logFile: path.join(folder, "revived.log"),
    });
  };

  it("is refused for good when it comes back, and the one that took its place goes on", async () => {
    const { kubernetes } = cluster.platform;
    const tenant = await cluster.tenant({ name: "revived" });
    const changed = { POD_NODE_SELECTOR: "ci-revived=later", RUNNER_TIMES: JSON.stringify(times) };
    await cluster.start({ tenant, changed });
    await using gate = await startPodGate(kubernetes);
    const run = await cluster.push("revived", workflow(gate.wait));
    await untilRow(run, /Reason: unschedulable\./);
    const [first] = (await podsOf(cluster, tenant)) as unknown as readonly PodWithVariables[];
    assert.ok(first !== undefined);
    const pod = `/api/v1/namespaces/${tenant.namespace}/pods/${first.metadata.name}`;
    const hold = (finalizers: readonly string[]) =>
      kubernetes.api.merge(pod, { metadata: { finalizers } }, soon());
    await hold(["example.org/hold"]);
    await removePod(cluster, tenant.namespace, first.metadata.name);
    const isAnother = async () =>
      (await podsOf(cluster, tenant)).some(
        ({ metadata }) => metadata.labels["ci.ddupan.top/attempt"] === "2",
      );
    await eventually("another attempt, though the first one is stuck", isAnother, 90_000);
    await labelNode(cluster, "ci-revived", "later");
    await untilRow(run, /^it runs$/);

    const revived = await revive(first);
    try {
      await revived.line(/another attempt has taken its place/, 120_000, AbortSignal.timeout(120_000));
      assert.equal(await revived.exited, "exit code 1");
    } finally {
      await revived.stop();
    }
    gate.open();
    const [job] = await run.jobs();
    assert.equal(job?.conclusion, "success");
    const log = await run.log(job);
    assert.equal(log.filter((row) => row === "it runs").length, 1);
    await hold([]);
    await untilNothingLeft(kubernetes, tenant.namespace);
  });
});

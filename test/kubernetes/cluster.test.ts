import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { get } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createWorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../controller/spiffe/x509-source.ts";
import { hasCondition } from "../../scripts/peers/cluster/conditions.ts";
import { executorNamespace, executorServiceAccount } from "../../scripts/peers/cluster/objects.ts";
import { startKubernetes } from "../../scripts/peers/cluster/start-kubernetes.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { clusterFolder, needCluster, useCluster } from "../support/cluster.ts";
import { clusterTraces } from "../support/cluster-leftovers.ts";
import { eventually } from "../support/eventually.ts";
import { processesMentioning } from "../support/find-processes.ts";

const { signal } = new AbortController();
const trustDomain = "example.org";
const pods = `/api/v1/namespaces/${executorNamespace}/pods`;
const entries = "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries";

/** Asks for its identity again and again, and says on a line what the answer was. */
const askForIdentity = `while sleep 0.2; do
  answer=$(spire-agent api fetch x509 -socketPath /run/spire/agent-sockets/spire-agent.sock 2>&1)
  echo "$answer" | grep -oE 'spiffe://[^ ]*|PermissionDenied' | head -n 1
done`;

describe("the real Kubernetes", function () {
  this.timeout(300_000);
  const real = useCluster({ trustDomain });

  const podOf = (name: string, users: readonly number[], command: readonly string[]) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      serviceAccountName: executorServiceAccount,
      automountServiceAccountToken: false,
      dnsPolicy: "Default",
      terminationGracePeriodSeconds: 0,
      containers: users.map((uid) => ({
        name: `user-${uid}`,
        image: real.cluster.executorImage,
        command,
        securityContext: { privileged: true, runAsUser: uid, runAsGroup: uid },
        volumeMounts: [{ name: "socket", mountPath: "/run/spire/agent-sockets", readOnly: true }],
      })),
      volumes: [{ name: "socket", csi: { driver: "csi.spiffe.io", readOnly: true } }],
    },
  });
  const linesOf = async (pod: string, user: number) => {
    const log = `${pods}/${pod}/log?container=user-${user}`;
    const answer = await real.cluster.api.ask("GET", log, signal);
    return answer.status === 200 ? answer.text.split("\n").filter((line) => line !== "") : [];
  };
  const declare = async (name: string, selectors: readonly string[]) => {
    const spec = {
      spiffeID: `spiffe://${trustDomain}/ci/${name}`,
      parentID: real.cluster.agentId,
      selectors,
      className: "spire-mgmt-spire",
    };
    const apiVersion = "spire.spiffe.io/v1alpha1";
    const entry = { apiVersion, kind: "ClusterStaticEntry", metadata: { name }, spec };
    await real.cluster.api.create(entries, entry, signal);
  };
  const phaseOf = async (pod: string) =>
    (await real.cluster.api.read(`${pods}/${pod}`, signal))["status"] as { readonly phase: string };

  it("has a node that takes Pods as soon as it is there", async () => {
    console.log(`      after ${real.startSeconds.toFixed(1)} s`);
    const node = await real.cluster.api.read(`/api/v1/nodes/${real.cluster.nodeName}`, signal);
    assert.ok(hasCondition(node, "Ready"));
  });

  it("gives a Pod's user the identity that was registered for it, and another user of the Pod none", async () => {
    const pod = await real.cluster.api.create(
      pods,
      podOf("identity", [2000, 2001], ["bash", "-c", askForIdentity]),
      signal,
    );
    await eventually("both have asked", async () => {
      const both = await Promise.all([linesOf("identity", 2000), linesOf("identity", 2001)]);
      return both.every((lines) => lines.length > 0);
    });
    const id = `spiffe://${trustDomain}/ci/identity`;
    const begun = performance.now();
    await declare("identity", [`k8s:pod-uid:${pod.metadata.uid}`, "unix:uid:2000"]);
    await eventually("it is there", async () => (await linesOf("identity", 2000)).includes(id));
    console.log(`      after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const asked = (await linesOf("identity", 2001)).length;
    await eventually(
      "the other has asked again",
      async () => (await linesOf("identity", 2001)).length > asked + 3,
    );
    assert.deepEqual([...new Set(await linesOf("identity", 2001))], ["PermissionDenied"]);
    const [first] = await linesOf("identity", 2000);
    assert.equal(first, "PermissionDenied");
    await real.cluster.api.remove(`${entries}/identity`, signal);
    await real.cluster.api.remove(`${pods}/identity`, signal);
  });

  it("gives a process of this machine the identity that was registered for its user", async () => {
    const { spire } = real.cluster;
    const { serverSocket } = spire;
    const made = createSpireEntries({ serverBinary: spire.peers.spireServer.binary, serverSocket });
    const expectedId = parseSpiffeId(`spiffe://${trustDomain}/controller`);
    const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
    const entry = { id: "controller", spiffeId: expectedId, parentId: spire.parentId, selectors };
    assert.deepEqual(await made.create(entry, signal), { kind: "created" });
    using client = createWorkloadClient({ kind: "unix", path: spire.agentSocket });
    const log = createRecordingLogger();
    const wanted = { client, expectedId, clock: systemClock, random: Math.random, log };
    await using source = await openX509Source({ ...wanted, readyTimeoutMs: 60_000 }, signal);
    assert.equal(source.current().id, expectedId);
    // The cluster's own controller has looked at all entries, and leaves alone what it does not know.
    await declare("marker", ["unix:uid:1"]);
    await eventually("it has been at work", async () =>
      (await made.below(real.cluster.agentId, signal)).some(({ spiffeId }) =>
        spiffeId.endsWith("/ci/marker"),
      ),
    );
    assert.deepEqual(
      (await made.below(spire.parentId, signal)).map(({ id }) => id),
      ["controller"],
    );
    await real.cluster.api.remove(`${entries}/marker`, signal);
    await made.remove("controller", signal);
  });

  it("lets Pods reach what listens on this machine's address, and the executor's program run", async () => {
    const server = createServer((_, response) => response.end("hello"));
    server.listen(0, real.cluster.hostAddress);
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const ask = `curl -sS http://${real.cluster.hostAddress}:${port}; echo; exec node "$(dirname "$(command -v node)")/../controller/bootstrap/main.js"`;
    try {
      await real.cluster.api.create(pods, podOf("program", [2000], ["bash", "-c", ask]), signal);
      await eventually("it has ended", async () => (await phaseOf("program")).phase === "Failed");
    } finally {
      server.close();
    }
    const said = await linesOf("program", 2000);
    assert.ok(said.includes("hello"), said.join("\n"));
    assert.match(
      said.join("\n"),
      /bootstrap stopped.*CI_ASSIGNMENT_ID is missing|CI_ASSIGNMENT_ID is missing.*bootstrap stopped/,
    );
    await real.cluster.api.remove(`${pods}/program`, signal);
  });

  it("knows a service account by its token, and gives it no rights", async () => {
    const account = { namespace: executorNamespace, name: executorServiceAccount };
    const token = await real.cluster.tokenFor(account, signal);
    const { server } = real.cluster;
    const ca = await readFile(real.cluster.ca, "utf8");
    const asked = get(new URL(pods, server), { ca, headers: { authorization: `Bearer ${token}` } });
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    assert.equal(answer.statusCode, 403);
    const who = `system:serviceaccount:${executorNamespace}:${executorServiceAccount}`;
    assert.ok((await text(answer)).includes(who));
    assert.match(await readFile(await real.cluster.kubeconfigFor(account, signal), "utf8"), /"token":"ey/);
  });

  it("has an API server that can be paused, and stopped, while Pods run on", async () => {
    const { apiServer } = real.cluster.components;
    await real.cluster.api.create(pods, podOf("lasting", [2000], ["sleep", "3600"]), signal);
    await eventually("it runs", async () => (await phaseOf("lasting")).phase === "Running");
    await apiServer.pause();
    const unanswered = real.cluster.api.ask("GET", "/version", AbortSignal.timeout(1_000));
    await assert.rejects(unanswered, { name: "TimeoutError" });
    apiServer.resume();
    await eventually(
      "it answers",
      async () => (await real.cluster.api.ask("GET", "/version", signal)).status === 200,
    );
    await apiServer.stop();
    await assert.rejects(real.cluster.api.ask("GET", "/version", signal), /ECONNREFUSED/);
    await apiServer.start(signal);
    assert.equal((await phaseOf("lasting")).phase, "Running");
    await real.cluster.api.remove(`${pods}/lasting`, signal);
  });

  it("can have a second node, which takes no Pod", async () => {
    const second = await real.cluster.addFakeNode("second", signal);
    const nodes = JSON.stringify(await real.cluster.api.read("/api/v1/nodes", signal));
    assert.match(nodes, /"name":"second"/);
    await second[Symbol.asyncDispose]();
    assert.equal((await real.cluster.api.ask("GET", "/api/v1/nodes/second", signal)).status, 404);
  });
});

describe("a cluster that has ended", function () {
  // Two of them start, on a machine where others do.
  this.timeout(400_000);
  before(async function () {
    await needCluster(this);
  });
  let folder: string;
  beforeEach(async () => {
    folder = await clusterFolder();
  });
  afterEach(() => rm(folder, { recursive: true, maxRetries: 5 }));

  it("leaves nothing behind once it is stopped, twice if need be", async () => {
    const cluster = await startKubernetes({ folder, trustDomain }, signal);
    const left = await clusterTraces(cluster.name, folder);
    assert.notDeepEqual(await left(), []);
    const begun = performance.now();
    await cluster.stop();
    console.log(`      after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    assert.deepEqual(await left(), []);
    await cluster.stop();
  });

  it("leaves nothing behind when its process is killed, and another cluster beside it as it was", async () => {
    await using other = await startKubernetes({ folder: path.join(folder, "other"), trustDomain }, signal);
    const child = path.join(import.meta.dirname, "../support/cluster-child.ts");
    const own = path.join(folder, "killed");
    const started = spawn(process.execPath, [child, own], { stdio: ["ignore", "pipe", "inherit"] });
    const [name] = (await once(createInterface({ input: started.stdout }), "line")) as [string];
    assert.notEqual(name, other.name);
    const left = await clusterTraces(name, own);
    assert.notDeepEqual(await left(), []);
    started.kill("SIGKILL");
    await once(started, "exit");
    await eventually("nothing is left", async () => (await left()).length === 0);
    assert.equal((await other.api.ask("GET", "/readyz", signal)).text, "ok");
  });

  it("has ended too when it was given up during its start", async () => {
    const soon = AbortSignal.timeout(2_500);
    await assert.rejects(startKubernetes({ folder, trustDomain }, soon), { name: "TimeoutError" });
    assert.deepEqual(processesMentioning(folder), []);
  });
});

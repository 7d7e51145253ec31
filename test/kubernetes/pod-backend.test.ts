import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import type { JsonObject } from "../../controller/kubernetes/json.ts";
import type { PodBackendOptions } from "../../controller/backends/pod/pod-options.ts";
import type { ExecutorState } from "../../controller/backends/backend.ts";
import { ApiRefusal } from "../../controller/kubernetes/kubernetes-api.ts";
import { abortable } from "../../controller/platform/signal.ts";
import { registrationPolicy } from "../../infra/registration-policy.ts";
import { controllerServiceAccount, executorNamespace } from "../../scripts/peers/cluster/objects.ts";
import { anExecutorRequest, describeBackend, reaches } from "../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../support/builders.ts";
import { useCluster } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import {
  clusterPods,
  controllerApi,
  entriesPath,
  makePodCluster,
  phaseOf,
  podsPath,
  type PodClusterWorld,
} from "./pod-cluster.ts";

const { signal } = new AbortController();

type Changes = Partial<PodBackendOptions["pods"]> & {
  readonly container?: JsonObject;
  readonly spec?: JsonObject;
};

describe("the Pod backend on a real cluster", function () {
  this.timeout(300_000);
  const real = useCluster({
    trustDomain: testTrustDomain,
    cacheReloadInterval: "500ms",
    syncInterval: "500ms",
  });

  describeBackend("keeps the contract", "pod", () => makePodCluster(real.cluster));

  describe("sees what a kubelet makes of its Pods", () => {
    let world: PodClusterWorld;

    afterEach(() => world[Symbol.asyncDispose]());

    async function started({ container, spec, ...settings }: Changes = {}): Promise<string> {
      const pods = { ...clusterPods(real.cluster, container, spec), ...settings };
      world = await makePodCluster(real.cluster, { pods });
      return (await world.backend.create(anExecutorRequest("pod"), signal)).name;
    }

    /** The first state that `wanted` is true for. */
    async function comesTo(name: string, wanted: (state: ExecutorState) => boolean): Promise<ExecutorState> {
      const deadline = AbortSignal.timeout(180_000);
      for (;;) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const stop = world.backend.onChange(() => resolve());
        try {
          const { executors } = await world.backend.list(deadline);
          const state = executors.find((one) => one.name === name)?.state;
          if (state !== undefined && wanted(state)) return state;
          await abortable(promise, deadline);
        } finally {
          stop();
        }
      }
    }
    const waitsFor = (name: string, reason: string) =>
      comesTo(name, (state) => state.phase === "starting" && state.waiting?.reason === reason);
    for (const [title, reason, changes] of [
      [
        "an image that is not there and may not be pulled",
        "image_missing",
        { image: "lab.local/absent:1", container: { imagePullPolicy: "Never" } },
      ],
      ["a name that no image can have", "image_invalid", { image: "lab.local/UPPER:1" }],
      ["a registry that does not answer", "registry_down", { image: "127.0.0.1:1/absent:1" }],
      [
        "a config map that is not there, once the grace is over",
        "config_error",
        {
          container: {
            env: [{ name: "ABSENT", valueFrom: { configMapKeyRef: { name: "absent", key: "a" } } }],
          },
        },
      ],
      [
        "a volume that cannot be mounted, of which only events tell",
        "config_error",
        {
          container: { volumeMounts: [{ name: "absent", mountPath: "/absent" }] },
          spec: { volumes: [{ name: "absent", secret: { secretName: "absent" } }] },
        },
      ],
      ["a place that no node has", "unschedulable", { nodeSelector: { "example.org/absent": "yes" } }],
    ] as const satisfies readonly [string, FailureReason, Changes][])
      it(`tells of ${title}`, async () => {
        await waitsFor(await started(changes), reason);
      });

    it("kills one that no node has, by its removal", async () => {
      const name = await started({ nodeSelector: { "example.org/absent": "yes" } });
      await waitsFor(name, "unschedulable");
      await world.backend.kill(name, "its task was cancelled", signal);
      assert.equal(await phaseOf(real.cluster, name), undefined);
      const state = await comesTo(name, ({ phase }) => phase === "ended");
      assert.deepEqual(state, { phase: "ended", reason: "its task was cancelled" });
    });

    it("kills one whose image hangs, and leaves its object", async () => {
      const name = await started({ image: "127.0.0.1:1/absent:1" });
      await waitsFor(name, "registry_down");
      await world.backend.kill(name, "no claim in time", signal);
      assert.equal(await phaseOf(real.cluster, name), "Failed");
      const state = await comesTo(name, ({ phase }) => phase === "ended");
      assert.deepEqual(state, { phase: "ended", reason: "no claim in time" });
    });

    it("tells of too little memory", async () => {
      const name = await started({ resources: { limits: { memory: "16Mi" } } });
      const state = await comesTo(name, ({ phase }) => phase === "ended");
      assert.ok(state.phase === "ended");
      assert.equal(state.cause, "oom", state.reason);
      assert.match(state.reason, /memory limit 16Mi/);
    });

    it("tells of a Pod that somebody deletes, also after it is gone", async () => {
      const name = await started();
      await reaches(world.backend, name, "running");
      await real.cluster.api.remove(`${podsPath}/${name}?gracePeriodSeconds=1`, signal);
      await eventually("it is gone", async () => (await phaseOf(real.cluster, name)) === undefined);
      const state = await comesTo(name, ({ phase }) => phase === "ended");
      assert.ok(state.phase === "ended");
      assert.equal(state.cause, "killed", state.reason);
      await world.backend.delete(name, signal);
      assert.deepEqual((await world.backend.list(signal)).executors, []);
    });

    it("tells of an eviction", async () => {
      const name = await started();
      await reaches(world.backend, name, "running");
      const body = {
        apiVersion: "policy/v1",
        kind: "Eviction",
        metadata: { name, namespace: executorNamespace },
        deleteOptions: { gracePeriodSeconds: 1 },
      };
      await real.cluster.api.create(`${podsPath}/${name}/eviction`, body, signal);
      const state = await comesTo(name, ({ phase }) => phase === "ended");
      assert.ok(state.phase === "ended");
      assert.equal(state.cause, "evicted", state.reason);
    });

    it("registers it with SPIRE, so that its program is given the job's identity", async () => {
      const name = await started();
      const { executors } = await world.backend.list(signal);
      const [found] = executors;
      assert.ok(found !== undefined);
      assert.deepEqual(await world.backend.bindIdentity(found, signal), { bound: true });
      await eventually("its program has it", async () => {
        const { text } = await real.cluster.api.ask("GET", `${podsPath}/${name}/log`, signal);
        const lines = text.split("\n").filter((line) => line.includes("x509-svid received"));
        return lines.some((line) => line.includes(`"${found.metadata.assignment.spiffeId}"`));
      });
      const entry = await real.cluster.api.read(`${entriesPath}/${name}`, signal);
      assert.equal((entry["spec"] as { readonly parentID: string }).parentID, real.cluster.agentId);
      // spire-controller-manager has filled in and written what it thinks of it: it is the same entry still.
      assert.deepEqual(await world.backend.bindIdentity(found, signal), { bound: true });
    });

    it("misses no end that comes while the API server is away", async () => {
      const name = await started();
      await reaches(world.backend, name, "running");
      const { apiServer } = real.cluster.components;
      await apiServer.stop();
      try {
        await world.end(name);
        const { executors } = await world.backend.list(signal);
        assert.equal(executors[0]?.state.phase, "running");
      } finally {
        await apiServer.start(signal);
      }
      await comesTo(name, ({ phase }) => phase === "ended");
    });
  });

  describe("may register nothing but executors, by the policy for it", () => {
    const policies = "/apis/admissionregistration.k8s.io/v1";
    const { owner } = anExecutorMetadata();
    const entry = (changes: { readonly labels?: object; readonly spec?: object } = {}) => ({
      apiVersion: "spire.spiffe.io/v1alpha1",
      kind: "ClusterStaticEntry",
      metadata: { name: "tried", labels: { "ci.ddupan.top/owner": owner, ...changes.labels } },
      spec: {
        spiffeID: `spiffe://${testTrustDomain}/ci/acme/widgets/build`,
        parentID: real.cluster.agentId,
        selectors: ["k8s:pod-uid:0a", "k8s:container-name:executor", "unix:uid:2000"],
        className: "spire-mgmt-spire",
        ...changes.spec,
      },
    });
    let api: Awaited<ReturnType<typeof controllerApi>>;

    const refused = async (body: object): Promise<string | undefined> => {
      try {
        await api.call({ method: "POST", path: entriesPath, body, query: { dryRun: "All" } }, signal);
        return undefined;
      } catch (error) {
        assert.ok(error instanceof ApiRefusal, String(error));
        return error.message;
      }
    };

    beforeEach(async () => {
      api = await controllerApi(real.cluster);
      const { policy, binding } = registrationPolicy({
        name: "gitea-dynamic-runner",
        controller: { namespace: executorNamespace, serviceAccount: controllerServiceAccount },
        owner,
        trustDomain: testTrustDomain,
        className: "spire-mgmt-spire",
        pods: {
          agentId: `spiffe://${testTrustDomain}/spire/agent/k8s_psat/{cluster}/{nodeUid}`,
          cluster: real.cluster.clusterName,
          executorUid: 2000,
        },
        guestAgents: { executorUid: 2000 },
      });
      await real.cluster.api.ensure(`${policies}/validatingadmissionpolicies`, policy, signal);
      await real.cluster.api.ensure(`${policies}/validatingadmissionpolicybindings`, binding, signal);
      await eventually("it is enforced", async () =>
        /no administrator/.test((await refused(entry({ spec: { admin: true } }))) ?? "it passed"),
      );
    });
    afterEach(() => {
      api.close();
    });

    it("lets an executor's entry pass", async () => {
      assert.equal(await refused(entry()), undefined);
    });

    const ofVm = (
      parent = `ci.${owner}.gitea-task-42-1-00000000.${"0".repeat(32)}`,
      selectors = ["unix:uid:2000"],
    ) => {
      const parentID = `spiffe://${testTrustDomain}/spire/agent/join_token/${parent}`;
      const made = entry({ labels: { "ci.ddupan.top/backend": "vm" }, spec: { parentID, selectors } });
      return { ...made, metadata: { ...made.metadata, name: "gitea-task-42-1-00000000" } };
    };

    it("lets the entry of a VM's own agent pass", async () => {
      assert.equal(await refused(ofVm()), undefined);
    });

    it("refuses a VM's entry by the agent of another VM, of another owner or of a node", async () => {
      const random = "0".repeat(32);
      for (const parent of [
        `ci.${owner}.gitea-task-42-2-00000000.${random}`,
        `ci.somebody-else.gitea-task-42-1-00000000.${random}`,
        `ci.${owner}.gitea-task-42-1-00000000.short`,
        random,
      ])
        assert.match((await refused(ofVm(parent))) ?? "it passed", /nor of the VM of the entry's name/);
      const { parentID } = entry().spec;
      const byNode = { ...ofVm(), spec: { ...ofVm().spec, parentID } };
      assert.match((await refused(byNode)) ?? "it passed", /nor of the VM of the entry's name/);
    });

    it("refuses a VM's entry with the selectors of a Pod", async () => {
      const { selectors } = entry().spec;
      assert.match((await refused(ofVm(undefined, selectors))) ?? "it passed", /the selectors/);
    });

    for (const [what, changes, words] of [
      ["an administrator", { spec: { admin: true } }, /no administrator/],
      ["an authority of its own", { spec: { downstream: true } }, /no administrator/],
      [
        "another identity",
        { spec: { spiffeID: `spiffe://${testTrustDomain}/ci-controller` } },
        /not that of a job/,
      ],
      ["another class", { spec: { className: "other" } }, /the class is not/],
      ["no class", { spec: { className: "" } }, /the class is not/],
      [
        "another parent",
        { spec: { parentID: `spiffe://${testTrustDomain}/spire/server` } },
        /not the agent of a node/,
      ],
      ["whoever has the uid", { spec: { selectors: ["unix:uid:2000"] } }, /the selectors/],
      ["another owner", { labels: { "ci.ddupan.top/owner": "somebody-else" } }, /not of this runner/],
    ] as const)
      it(`refuses ${what}`, async () => {
        assert.match((await refused(entry(changes))) ?? "it passed", words);
      });

    it("refuses to remove another's entry, and lets ours be removed", async () => {
      const removed = (name: string) =>
        api.call({ method: "DELETE", path: `${entriesPath}/${name}` }, signal);
      const others = { ...entry(), metadata: { name: "others" } };
      await real.cluster.api.create(entriesPath, others, signal);
      await assert.rejects(removed("others"), /not of this runner/);
      await real.cluster.api.remove(`${entriesPath}/others`, signal);
      await real.cluster.api.create(entriesPath, entry(), signal);
      await removed("tried");
    });
  });

  describe("on a node that nobody hears of", () => {
    let world: PodClusterWorld;
    let name: string;

    beforeEach(async () => {
      world = await makePodCluster(real.cluster);
      ({ name } = await world.backend.create(anExecutorRequest("pod"), signal));
      // After an outage of the API server the scheduler and the kubelet wait ever longer before they look again.
      const runs = async () => {
        const { executors } = await world.backend.list(signal);
        return executors.some((one) => one.name === name && one.state.phase === "running");
      };
      await eventually("it runs", runs, 150_000);
      await real.cluster.components.kubelet.pause();
    });
    afterEach(async () => {
      const { kubelet } = real.cluster.components;
      kubelet.resume();
      // Only at its start does it make its node's object anew.
      await kubelet.start(signal);
      await world[Symbol.asyncDispose]();
    });
    const removeNode = () => real.cluster.api.remove(`/api/v1/nodes/${real.cluster.nodeName}`, signal);

    it("is deleted by force once the node is no more", async () => {
      const short = AbortSignal.timeout(3_000);
      await assert.rejects(world.backend.delete(name, short), (error) => error === short.reason);
      await removeNode();
      await world.backend.delete(name, signal);
      assert.deepEqual((await world.backend.list(signal)).executors, []);
      assert.equal(await phaseOf(real.cluster, name), undefined);
    });

    it("runs on until the cluster gives the node up, and is lost with it", async () => {
      // Nothing is evicted from the only node of a cluster.
      await using nodes = new AsyncDisposableStack();
      nodes.use(await real.cluster.addFakeNode("second", signal));
      await eventually("the cluster wants it gone", async () => {
        const pod = await real.cluster.api.read(`${podsPath}/${name}`, signal);
        return pod.metadata["deletionTimestamp"] !== undefined;
      });
      const { executors } = await world.backend.list(signal);
      assert.equal(executors[0]?.state.phase, "running");
      await removeNode();
      const ended = async () => {
        const [executor] = (await world.backend.list(signal)).executors;
        return executor?.state.phase === "ended" && executor.state.cause === "node_lost";
      };
      await eventually("it is lost", ended, 200_000, 1_000);
    });
  });
});

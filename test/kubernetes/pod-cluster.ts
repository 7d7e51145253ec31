import { readFile } from "node:fs/promises";
import { ownerLabel } from "../../controller/assignment/executor-metadata.ts";
import { createPodBackend, type PodBackend } from "../../controller/backends/pod/pod-backend.ts";
import type { JsonObject } from "../../controller/kubernetes/json.ts";
import type { PodBackendOptions } from "../../controller/backends/pod/pod-options.ts";
import { createHttpsApi } from "../../controller/kubernetes/https-api.ts";
import type { KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import {
  controllerServiceAccount,
  executorNamespace,
  executorServiceAccount,
} from "../../scripts/peers/cluster/objects.ts";
import type { Kubernetes } from "../../scripts/peers/cluster/kubernetes.ts";
import { runningWith } from "../controller/backends/local/local-world.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import type { BackendUnderTest } from "../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { grantRights } from "../support/kubernetes/controller-rights.ts";
import { signalProcess } from "../support/kubernetes/pod-processes.ts";
import { podSettings } from "../support/pod.ts";

const { signal } = new AbortController();
export const podsPath = `/api/v1/namespaces/${executorNamespace}/pods`;
export const entriesPath = "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries";

export type PodClusterWorld = BackendUnderTest & {
  readonly backend: PodBackend;
  readonly log: RecordingLogger;
  another(overrides?: Partial<PodBackendOptions>): Promise<PodBackend>;
};

/** A backend over a real cluster, with no other rights than the controller's. It leaves nothing there. */
export async function makePodCluster(
  cluster: Kubernetes,
  overrides: Partial<PodBackendOptions> = {},
): Promise<PodClusterWorld> {
  const api = await controllerApi(cluster);
  const log = createRecordingLogger();
  const over = new AbortController();
  const runs: Promise<void>[] = [];
  const options: PodBackendOptions = {
    api,
    owner: anExecutorMetadata().owner,
    trustDomain: testTrustDomain,
    pods: clusterPods(cluster),
    entries: {
      cluster: cluster.clusterName,
      className: "spire-mgmt-spire",
      agentId: `spiffe://${testTrustDomain}/spire/agent/k8s_psat/{cluster}/{nodeUid}`,
      uid: 2000,
      svidTtlSeconds: 600,
    },
    clock: systemClock,
    random: Math.random,
    log,
    ...overrides,
  };
  const another = async (more: Partial<PodBackendOptions> = {}) => {
    const backend = createPodBackend({ ...options, ...more });
    runs.push(backend.run(over.signal));
    return backend;
  };
  const backend = await another();
  const podThere = async (name: string) => await phaseOf(cluster, name);

  return {
    backend,
    log,
    another,
    restarted: () => another(),
    ofOwner: (owner) => another({ owner }),
    // The scheduler does it.
    makeBindable: async () => undefined,
    end: async (name) => {
      await eventually("it runs", async () => (await processesOf(name)).length > 0);
      await eventually("it has ended", async () => {
        const pids = await processesOf(name);
        // The first process of a container does not hear what it has not asked for yet.
        for (const pid of pids) signalProcess(Number(pid), "SIGTERM");
        return pids.length === 0;
      });
    },
    spoil: async (name) => {
      const annotations = { "ci.ddupan.top/spiffe-id": "spiffe://example.org/of-somebody-else" };
      await cluster.api.merge(`${podsPath}/${name}`, { metadata: { annotations } }, signal);
      const sees = async (one: PodBackend) => (await one.list(signal)).invalid.length > 0;
      await eventually("its watch has it", () => sees(backend));
      await eventually("a new one has it", async () => await sees(await another()));
    },
    now: () => Date.now(),
    // The node counts from when it has the Pod, which then still has to be seen to run.
    lifeMs: 20_000,
    // It goes by by itself.
    pass: async () => undefined,
    // The Pod's phase may say so for longer than it is true.
    running: async (name) => [
      ...((await podThere(name)) === "Pending" ? ["its Pod may start"] : []),
      ...(await processesOf(name)),
    ],
    remains: async (name) => [
      ...((await podThere(name)) === undefined ? [] : [`Pod ${name}`]),
      ...((await statusOf(cluster, `${entriesPath}/${name}`)) === 404 ? [] : [`entry ${name}`]),
      ...(await processesOf(name)),
    ],
    [Symbol.asyncDispose]: async () => {
      over.abort(new Error("the world ends"));
      await Promise.all(runs);
      api.close();
      await removeAll(cluster);
    },
  };
}

/** What every Pod needs in this cluster. A process that has just begun would use up all of its grace. */
export function clusterPods(
  cluster: Kubernetes,
  container: JsonObject = {},
  spec: JsonObject = {},
): PodBackendOptions["pods"] {
  const containers = [{ name: "executor", ...container }];
  return {
    ...podSettings({
      namespace: executorNamespace,
      serviceAccount: executorServiceAccount,
      image: cluster.executorImage,
      dnsPolicy: "Default",
    }),
    patch: { spec: { terminationGracePeriodSeconds: 2, ...spec, containers } },
  };
}

/** The API as the controller's service account, which gets its rights here. */
export async function controllerApi(cluster: Kubernetes): Promise<KubernetesApi> {
  const account = { namespace: executorNamespace, name: controllerServiceAccount };
  const places = { podNamespace: executorNamespace, controllerNamespace: executorNamespace };
  await grantRights(cluster.api, account, places, signal);
  const [token, ca] = await Promise.all([cluster.tokenFor(account, signal), readFile(cluster.ca)]);
  const load = async () => ({ headers: { Authorization: `Bearer ${token}` }, ca });
  return createHttpsApi({ cluster: { server: new URL(cluster.server), load }, clock: systemClock });
}

/** Undefined if there is no such Pod. */
export async function phaseOf(cluster: Kubernetes, name: string): Promise<string | undefined> {
  const { status, text } = await cluster.api.ask("GET", `${podsPath}/${name}`, signal);
  if (status === 404) return undefined;
  return (JSON.parse(text) as { readonly status: { readonly phase: string } }).status.phase;
}

/** The pids of an executor's processes, as this machine sees them. */
export function processesOf(name: string): Promise<readonly string[]> {
  return runningWith(`HOSTNAME=${name}`);
}

async function statusOf(cluster: Kubernetes, path: string): Promise<number> {
  return (await cluster.api.ask("GET", path, signal)).status;
}

async function removeAll(cluster: Kubernetes): Promise<void> {
  const selected = `labelSelector=${encodeURIComponent(ownerLabel)}`;
  await cluster.api.ask("DELETE", `${entriesPath}?${selected}`, signal);
  await cluster.api.ask("DELETE", `${podsPath}?${selected}&gracePeriodSeconds=1`, signal);
  await eventually("all Pods are gone", async () => {
    const { text } = await cluster.api.ask("GET", `${podsPath}?${selected}`, signal);
    return (JSON.parse(text) as { readonly items: readonly unknown[] }).items.length === 0;
  });
}

import type { Executor } from "../../../../controller/backends/backend.ts";
import { createPodBackend, type PodBackend } from "../../../../controller/backends/pod/pod-backend.ts";
import type { PodBackendOptions } from "../../../../controller/backends/pod/pod-options.ts";
import { permissionsOf } from "../../../../controller/kubernetes/permissions.ts";
import { createFakeClock, type FakeClock, settle } from "../../../fakes/fake-clock.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../../../fakes/fake-kubernetes.ts";
import { createRecordingLogger, type RecordingLogger } from "../../../fakes/recording-logger.ts";
import type { BackendUnderTest } from "../../../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../../../support/builders.ts";
import { podSettings } from "../../../support/pod.ts";
import { createFakeKubelet, type FakeKubelet } from "./fake-kubelet.ts";

export type PodWorld = BackendUnderTest & {
  readonly backend: PodBackend;
  readonly cluster: FakeKubernetes;
  readonly kubelet: FakeKubelet;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  /** A further backend over the same cluster; it watches until the world ends. */
  another(overrides?: Partial<PodBackendOptions>): Promise<PodBackend>;
  /** A backend that does not watch the cluster. */
  unwatched(): PodBackend;
  /** The executor as the backend lists it now; undefined if it does not. */
  listed(name: string): Promise<Executor | undefined>;
};

/** A cluster with one node, and a backend that watches it. */
export async function makePodWorld(
  overrides: Partial<PodBackendOptions> = {},
  clock: FakeClock = createFakeClock(),
): Promise<PodWorld> {
  const cluster = createFakeKubernetes(clock);
  // What a Role grants by that table has to do.
  cluster.allowOnly(permissionsOf({ controllerNamespace: undefined, podNamespace: podSettings().namespace }));
  const log = createRecordingLogger();
  const kubelet = createFakeKubelet(cluster, clock);
  const over = new AbortController();
  const runs: Promise<unknown>[] = [kubelet.run(over.signal)];
  const begunAt = clock.now();
  const options: PodBackendOptions = {
    api: cluster.api,
    owner: anExecutorMetadata().owner,
    trustDomain: testTrustDomain,
    pods: podSettings(),
    entries: {
      cluster: "lab",
      className: "ci",
      agentId: `spiffe://${testTrustDomain}/spire/agent/k8s_psat/{cluster}/{nodeUid}`,
      uid: 2000,
      svidTtlSeconds: 600,
    },
    clock,
    // As of a process, it counts from elsewhere: whoever takes one clock for the other is found out.
    steady: () => clock.now() - begunAt,
    random: () => 0.5,
    log,
    ...overrides,
  };
  const another = async (more: Partial<PodBackendOptions> = {}) => {
    const backend = createPodBackend({ ...options, ...more });
    runs.push(backend.run(over.signal));
    return backend;
  };
  const backend = await another();
  await settle();

  return {
    backend,
    cluster,
    kubelet,
    clock,
    log,
    another,
    unwatched: () => createPodBackend(options),
    listed: async (name) => {
      const { executors } = await backend.list(new AbortController().signal);
      return executors.find((executor) => executor.name === name);
    },
    restarted: () => another(),
    ofOwner: (owner) => another({ owner }),
    makeBindable: async () => settle(),
    end: async (name) => {
      kubelet.end(name, { reason: "Completed", exitCode: 0 });
      await settle();
    },
    spoil: async (name) => {
      cluster.edit("Pod", name, (pod) => ({
        ...pod,
        metadata: {
          ...pod.metadata,
          annotations: {
            ...pod.metadata.annotations,
            "ci.ddupan.top/spiffe-id": "spiffe://example.org/other",
          },
        },
      }));
      await settle();
    },
    now: () => clock.now(),
    // The kubelet's deadline is in whole seconds.
    pass: (ms) => clock.step(ms + 1_000),
    running: async (name) => kubelet.running(name),
    remains: async (name) =>
      ["Pod", "ClusterStaticEntry"].flatMap((kind) =>
        cluster.get(kind, name) === undefined ? [] : [`${kind} ${name}`],
      ),
    [Symbol.asyncDispose]: async () => {
      over.abort(new Error("the world ends"));
      await Promise.all(runs);
    },
  };
}

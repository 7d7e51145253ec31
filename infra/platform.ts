import type { Input } from "@pulumi/pulumi";
import { Cluster, takenBack } from "./cluster.ts";
import { Controller } from "./controller.ts";
import { Images } from "./images.ts";
import { Monitoring } from "./monitoring.ts";
import { Namespaces } from "./namespaces.ts";
import { namesOf } from "./names.ts";
import { NetworkPolicies } from "./network-policies.ts";
import { Queue } from "./queue.ts";
import type { SecretName } from "./read-settings.ts";
import { Registration } from "./registration.ts";
import { ControllerRights, rightsOf } from "./rights.ts";
import type { Settings } from "./settings.ts";
import { VmPool } from "./vm-pool.ts";

/** Of the executor image's user, as the controller has it by default. */
const executorUid = 2000;

/** Everything of a stack. */
export function platform(settings: Settings, secrets: Readonly<Partial<Record<SecretName, Input<string>>>>) {
  const names = namesOf(settings);
  const { spire, vm, pod } = settings;
  const withPods = settings.components.includes("pod-worker");
  const withVms = settings.components.includes("vm-worker");
  const withGuests = withVms && vm?.identity === "guest-agent";
  const withEntries = withPods || withGuests;
  const cluster = new Cluster("cluster", { context: settings.kubeContext });
  const { provider } = cluster;
  const of = { names, provider };
  // What cannot be built or pushed is known before anything else is changed.
  const images = new Images(
    "images",
    { images: settings.images, tag: names.imageTag },
    { dependsOn: cluster },
  );
  const ours = { transformations: [takenBack], dependsOn: images };

  const namespaces = new Namespaces(
    "namespaces",
    { ...of, protect: settings.protect, withPods, quota: pod.quota },
    ours,
  );
  const queue = new Queue(
    "queue",
    { names, settings, password: secrets.natsPassword ?? "" },
    { dependsOn: images },
  );
  const rights = new ControllerRights(
    "rights",
    { ...of, rights: rightsOf({ withPods, withEntries }) },
    { ...ours, dependsOn: namespaces },
  );
  const policy = withEntries
    ? {
        name: names.controller,
        controller: { namespace: names.namespace, serviceAccount: names.controller },
        owner: settings.gitea.runnerUuid,
        trustDomain: spire.trustDomain,
        className: spire.className,
        ...(withPods && spire.agentId !== undefined
          ? { pods: { agentId: spire.agentId, cluster: spire.cluster, executorUid } }
          : {}),
        ...(withGuests ? { guestAgents: { executorUid } } : {}),
      }
    : undefined;
  const registration = new Registration("registration", { ...of, spire, policy }, ours);
  // No executor is to be there before what confines it.
  const confinement: NetworkPolicies[] = [];
  if (settings.network.policies)
    confinement.push(
      new NetworkPolicies(
        "network",
        {
          ...of,
          network: settings.network,
          withPods,
          ...(withVms && vm !== undefined ? { vms: { callersNamespace: vm.controllerNamespace } } : {}),
        },
        { ...ours, dependsOn: namespaces },
      ),
    );
  if (withVms && vm !== undefined && names.pool !== undefined)
    new VmPool(
      "vm-pool",
      { pool: names.pool, provider, vm, image: images.runner },
      { ...ours, dependsOn: confinement },
    );
  const controller = new Controller(
    "controller",
    { ...of, settings, secrets, images },
    { ...ours, dependsOn: [namespaces, queue, rights, registration, ...confinement] },
  );
  if (settings.monitoring) new Monitoring("monitoring", of, { ...ours, dependsOn: controller });
  return { names, images };
}

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { type ClusterApi, openClusterApi } from "./api.ts";
import { type ClusterCertificates, createCertificates } from "./certificates.ts";
import { cgroupMounts } from "./cgroup-mounts.ts";
import { type Component, type ComponentRecipe, startComponent } from "./component.ts";
import { apiServerPort } from "./control-plane.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import { createLaunch, type Launch } from "./launch.ts";
import { createNamespaces, type Namespaces } from "./namespaces.ts";
import { joinNetwork, serveApiAddress } from "./network.ts";
import { type NodeFiles, writeNodeFiles } from "./node-settings.ts";
import { debianProgram } from "./obstacle.ts";
import type { ClusterParts } from "./prepare-cluster.ts";
import { type Slot, takeSlot } from "./slot.ts";

type Kubeconfigs = Readonly<Record<"admin" | "controllerManager" | "scheduler" | "node", string>>;

/** Where a cluster is built: namespaces with a network, certificates, configuration; nothing runs yet. */
export type Site = {
  readonly parts: ClusterParts;
  readonly slot: Slot;
  readonly namespaces: Namespaces;
  readonly nodeName: string;
  /** The API server's address. */
  readonly server: string;
  readonly certificates: ClusterCertificates;
  /** Their paths. */
  readonly kubeconfigs: Kubeconfigs;
  readonly node: NodeFiles;
  readonly api: ClusterApi;
  readonly launch: Launch;
  /** Path of a file or folder in the run folder. */
  readonly below: (name: string) => string;
  /** Starts a program inside; it ends with the site. */
  start(recipe: ComponentRecipe, signal: AbortSignal): Promise<Component>;
};

const nodeName = "node";
const folders = ["logs", "certificates", "spire", "spire-node"];

/** Makes the site in the folder; disposing of the stack ends all that runs there, and leaves nothing but files. */
export async function openSite(
  folder: string,
  parts: ClusterParts,
  stack: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<Site> {
  const { peers, environment } = parts;
  const below = (name: string) => join(folder, name);
  for (const name of folders) await mkdir(below(name), { recursive: true, mode: 0o755 });
  await mkdir(below("etcd"), { mode: 0o700 });

  const slot = await takeSlot(await cgroupMounts(), environment, signal);
  stack.defer(() => slot.release());
  const { nodeIp } = slot;
  const hosts = { [nodeName]: nodeIp };
  const namespaces = await createNamespaces({ folder, hostName: nodeName, hosts, environment }, signal);
  const running: Component[] = [];
  stack.defer(async () => {
    // At once: what has ended inside is waited for by who started it, which may be paused.
    await Promise.all([namespaces.stop(), ...running.map((component) => component.process().stop(0))]);
  });
  await joinNetwork(slot, namespaces, environment, signal);
  await serveApiAddress(slot, apiServerPort, namespaces, signal);

  const certificates = await createCertificates(
    below("certificates"),
    { name: nodeName, ip: nodeIp },
    systemClock.now(),
  );
  const { ca } = certificates;
  const server = `https://${nodeIp}:${apiServerPort}`;
  const kubeconfig = async (name: keyof Kubeconfigs) =>
    await writeKubeconfig(below(`certificates/${name}.kubeconfig`), { server, ca }, certificates[name]);
  const programs: Record<string, string> = {};
  for (const [name, { binary }] of Object.entries(peers)) programs[name] = binary;
  for (const name of ["containerd", "ctr"]) programs[name] = await debianProgram(name, environment);
  return {
    parts,
    slot,
    namespaces,
    nodeName,
    server,
    certificates,
    kubeconfigs: {
      admin: await kubeconfig("admin"),
      controllerManager: await kubeconfig("controllerManager"),
      scheduler: await kubeconfig("scheduler"),
      node: await kubeconfig("node"),
    },
    node: await writeNodeFiles({ folder, cgroup: slot.name, nameServer: slot.hostIp, certificates }),
    api: stack.use(await openClusterApi(server, ca, certificates.admin)),
    launch: createLaunch(namespaces, programs, below("logs"), environment),
    below,
    start: async (recipe, abort) => {
      const component = await startComponent(recipe, abort);
      running.push(component);
      return component;
    },
  };
}

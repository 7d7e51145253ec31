import path from "node:path";
import { createSpireEntries } from "../../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { type Component, startComponent } from "../../../scripts/peers/cluster/component.ts";
import { entryController } from "../../../scripts/peers/cluster/entry-controller.ts";
import { spireCrds } from "../../../scripts/peers/cluster/spire-crds.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";
import { createAdmin, type GiteaAdmin } from "../../../scripts/peers/gitea-api/admin.ts";
import type { GiteaSettings } from "../../../scripts/peers/gitea-settings.ts";
import { prepareOpenSandboxLab } from "../../../scripts/peers/opensandbox/prepare-lab.ts";
import type { Peer } from "../../../scripts/peers/peer.ts";
import { preparePeer } from "../../../scripts/peers/prepare-peer.ts";
import type { Report } from "../../../scripts/peers/report.ts";
import { startServer } from "../../../scripts/peers/server-process.ts";
import { type Gitea, startGitea } from "../../../scripts/peers/start-gitea.ts";
import { type Nats, startNats } from "../../../scripts/peers/start-nats.ts";
import { prepareSpire, type Spire, startSpire } from "../../../scripts/peers/start-spire.ts";
import { type Peers, preparePeers } from "../../../scripts/quick-start/prepare-peers.ts";
import { createProcessVms } from "./process-vms.ts";
import { type OpenSandboxLab, startLab } from "./use-opensandbox.ts";
import { makeVmImage } from "./vm-image.ts";
import type { VmHost } from "./vm-host.ts";

export const trustDomain = "vms.example";
export const className = "spire-mgmt-spire";
export const facadeId = parseSpiffeId(`spiffe://${trustDomain}/controller/facade`);

/** Gitea, NATS, SPIRE, an API server and OpenSandbox: all that controllers with VMs need, and none of these yet. */
export type VmPlatform = {
  readonly lab: OpenSandboxLab;
  readonly gitea: Gitea;
  readonly admin: GiteaAdmin;
  readonly nats: Nats;
  readonly spire: Spire;
  readonly spireControllerManager: Component;
  /** VMs with the executor's image. */
  readonly vms: VmHost;
};

export type VmParts = {
  readonly peers: Peers;
  readonly sandboxes: Awaited<ReturnType<typeof prepareOpenSandboxLab>>;
  readonly spire: Awaited<ReturnType<typeof prepareSpire>>;
  readonly spireControllerManager: Peer;
};

/** Finds or builds the programs, one after the other. */
export async function prepareVmPlatform(report: Report, signal: AbortSignal): Promise<VmParts> {
  return {
    peers: await preparePeers(report, signal),
    spire: await prepareSpire(report, signal),
    sandboxes: await prepareOpenSandboxLab({ report }, signal),
    spireControllerManager: await preparePeer("spire-controller-manager", { report }, signal),
  };
}

/** Starts it; disposing of the stack ends all of it. */
export async function startVmPlatform(
  parts: VmParts,
  options: { readonly giteaSettings?: GiteaSettings },
  stack: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<VmPlatform> {
  const { peers } = parts;
  const lab = await startLab(parts.sandboxes, {}, stack, await spireCrds(process.env, signal));
  const { folder } = lab;
  const spire = stack.use(
    await startSpire(
      { folder: await folder.below("spire"), trustDomain, peers: parts.spire, adminIds: [facadeId] },
      signal,
    ),
  );
  await registerController(spire, signal);
  const spireControllerManager = await startEntryController(parts.spireControllerManager, lab, spire, signal);
  stack.defer(() => spireControllerManager.stop());
  const settings = options.giteaSettings === undefined ? {} : { settings: options.giteaSettings };
  const gitea = stack.use(
    await startGitea({ folder: await folder.below("gitea"), peer: peers.gitea, ...settings }, signal),
  );
  const admin = await createAdmin(gitea, { user: "demo" }, signal);
  const nats = stack.use(await startNats({ folder: await folder.below("nats"), peer: peers.nats }, signal));
  const image = await makeVmImage(await folder.below("image"), {
    giteaRunner: peers.giteaRunner,
    spireAgent: parts.spire.spireAgent,
  });
  const vms = createProcessVms({ folder: await folder.below("vms"), image });
  return { lab, gitea, admin, nats, spire, spireControllerManager, vms };
}

/** What runs as our own user on this machine is the controller. */
async function registerController({ peers, serverSocket, parentId }: Spire, signal: AbortSignal) {
  const entries = createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket });
  const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
  await entries.create(
    { id: "facade", spiffeId: facadeId, parentId, selectors, x509TtlSeconds: 600 },
    signal,
  );
}

async function startEntryController(
  peer: Peer,
  { folder, apiServer }: OpenSandboxLab,
  { serverSocket }: Spire,
  signal: AbortSignal,
): Promise<Component> {
  const place = await folder.below("spire-controller-manager");
  const program = await entryController({
    clusterName: "homelab",
    className,
    trustDomain,
    serverSocket,
    kubeconfig: apiServer.kubeconfig,
    file: path.join(place, "configuration.json"),
    health: `127.0.0.1:${await freePort()}`,
  });
  const logFile = path.join(place, "spire-controller-manager.log");
  const launch = () =>
    startServer({
      name: program.name,
      program: peer.binary,
      args: program.args,
      folder: place,
      environment: { ...process.env, ...program.environment },
      logFile,
    });
  return await startComponent({ name: program.name, logFile, launch, isReady: program.isReady }, signal);
}

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { freePort } from "../free-port.ts";
import type { Peer } from "../peer.ts";
import { startServer } from "../server-process.ts";
import { apiServerFlags, controllerFlags, etcdFlags } from "./api-server-flags.ts";
import { type ClusterApi, type KubernetesObject, openClusterApi } from "./api.ts";
import { createCertificates } from "./certificates.ts";
import { type Component, type ComponentRecipe, startComponent } from "./component.ts";
import { establishDefinitions } from "./definitions.ts";
import { writeKubeconfig } from "./kubeconfig.ts";

export type LoneApiServerOptions = {
  /** Configuration, logs and data. */
  readonly folder: string;
  readonly etcd: Peer;
  readonly apiServer: Peer;
  /** Custom resources to be known; waited for. */
  readonly definitions: readonly KubernetesObject[];
  readonly namespaces: readonly string[];
  /** Works on the objects as far as these controllers of it do; nobody does unless given. */
  readonly controllers?: { readonly peer: Peer; readonly names: readonly string[] };
};

/** An API server without nodes: it keeps objects, and nobody but the controllers that were asked for works on them. */
export type LoneApiServer = AsyncDisposable & {
  /** As in `https://127.0.0.1:41234`; the same over restarts. */
  readonly server: string;
  /** The file with its CA. */
  readonly ca: string;
  /** Path of the administrator's. */
  readonly kubeconfig: string;
  /** As the administrator. */
  readonly api: ClusterApi;
  readonly components: { readonly etcd: Component; readonly apiServer: Component };
  /** Ends both; stopping twice is no error. */
  stop(): Promise<void>;
};

const address = "127.0.0.1";

/**
 * Starts etcd and an API server on free ports of loopback and waits until it answers, with the definitions in use. Needs neither
 * root nor namespaces. Rejects with the end of the log of what does not start; ends with this process.
 */
export async function startLoneApiServer(
  options: LoneApiServerOptions,
  signal: AbortSignal,
): Promise<LoneApiServer> {
  const { folder, namespaces, definitions } = options;
  const below = (name: string) => join(folder, name);
  await using stack = new AsyncDisposableStack();
  await mkdir(below("certificates"), { recursive: true, mode: 0o755 });
  await mkdir(below("etcd"), { mode: 0o700 });
  const place = { name: "none", ip: address };
  const certificates = await createCertificates(below("certificates"), place, systemClock.now());
  const [clientPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const etcdAddress = `http://${address}:${clientPort}`;
  const server = `https://${address}:${port}`;
  const { ca, admin } = certificates;
  const kubeconfig = await writeKubeconfig(below("admin.kubeconfig"), { server, ca }, admin);
  const api = stack.use(await openClusterApi(server, ca, admin));

  const start = async (
    peer: Peer,
    args: readonly string[],
    isReady: ComponentRecipe["isReady"],
  ): Promise<Component> => {
    const logFile = below(`${peer.name}.log`);
    const command = {
      name: peer.name,
      program: peer.binary,
      args,
      folder,
      environment: process.env,
      logFile,
    };
    const recipe = { name: peer.name, logFile, launch: () => startServer(command), isReady };
    const component = await startComponent(recipe, signal);
    stack.defer(() => component.stop());
    return component;
  };
  const etcdPlace = {
    dataFolder: below("etcd"),
    clients: etcdAddress,
    peers: `http://${address}:${peerPort}`,
  };
  const etcd = await start(options.etcd, etcdFlags(etcdPlace), () => Promise.resolve(true));
  const flags = apiServerFlags({
    etcd: etcdAddress,
    bind: address,
    advertise: address,
    port,
    certificateFolder: below("apiserver"),
    certificates,
  });
  const apiServer = await start(
    options.apiServer,
    // It refuses to publish a loopback address as that of its own service, which nobody here asks for.
    [...flags, "--endpoint-reconciler-type=none"],
    async (abort) => (await api.ask("GET", "/readyz", abort)).text === "ok",
  );
  for (const name of namespaces) {
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
    await api.ensure("/api/v1/namespaces", namespace, signal);
  }
  await establishDefinitions(api, definitions, signal);
  if (options.controllers !== undefined) {
    const { peer, names } = options.controllers;
    const asked = controllerFlags(kubeconfig, certificates, names);
    await start(peer, asked, () => Promise.resolve(true));
  }

  const all = stack.move();
  const stop = () => all.disposeAsync();
  return { server, ca, kubeconfig, api, components: { etcd, apiServer }, stop, [Symbol.asyncDispose]: stop };
}

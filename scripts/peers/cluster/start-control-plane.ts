import type { Component } from "./component.ts";
import { controlPlane } from "./control-plane.ts";
import { installObjects } from "./objects.ts";
import type { Site } from "./site.ts";

/** Nobody waits for these: whoever needs them asks again. */
const atOnce = async () => true;

/** Starts etcd and the API server, and puts what tests expect into the cluster. */
export async function startApiServer(
  site: Site,
  signal: AbortSignal,
): Promise<{ readonly etcd: Component; readonly apiServer: Component }> {
  const { api, launch, parts } = site;
  const { etcd, apiServer } = controlPlane(site);
  const isReady = async (abort: AbortSignal) => (await api.ask("GET", "/readyz", abort)).text === "ok";
  const started = {
    etcd: await site.start(launch({ name: "etcd", args: etcd, isReady: atOnce }), signal),
    apiServer: await site.start(launch({ name: "kube-apiserver", args: apiServer, isReady }), signal),
  };
  await installObjects(api, parts.crds, signal);
  return started;
}

/** Starts what works on the objects of the cluster. */
export async function startControllers(
  site: Site,
  signal: AbortSignal,
): Promise<{ readonly controllerManager: Component; readonly scheduler: Component }> {
  const { controllerManager, scheduler } = controlPlane(site);
  const start = async (name: string, args: readonly string[]) =>
    await site.start(site.launch({ name, args, isReady: atOnce }), signal);
  return {
    controllerManager: await start("kube-controller-manager", controllerManager),
    scheduler: await start("kube-scheduler", scheduler),
  };
}

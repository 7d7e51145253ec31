import { createHttpsApi, type HttpsApiOptions } from "../../controller/kubernetes/https-api.ts";
import type { KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../fakes/fake-kubernetes.ts";
import { serveFakeKubernetes, type ServedKubernetes } from "../fakes/serve-fake-kubernetes.ts";

export const plantedToken = "planted-token-of-the-controller";

/** A fake cluster on HTTPS, and our client to it. */
export type ServedCluster = AsyncDisposable & {
  readonly cluster: FakeKubernetes;
  readonly server: ServedKubernetes;
  readonly api: KubernetesApi;
};

export async function startServedCluster(
  options: Partial<HttpsApiOptions> = {},
  cluster = createFakeKubernetes(systemClock),
): Promise<ServedCluster> {
  const server = await serveFakeKubernetes(cluster);
  server.tokens.add(plantedToken);
  const credential = { headers: { Authorization: `Bearer ${plantedToken}` }, ca: server.ca };
  const api = createHttpsApi({
    cluster: { server: new URL(server.url), load: () => Promise.resolve(credential) },
    clock: systemClock,
    ...options,
  });
  return {
    cluster,
    server,
    api,
    [Symbol.asyncDispose]: async () => {
      api.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

import { readFile } from "node:fs/promises";
import { createHttpsApi } from "../../../controller/kubernetes/https-api.ts";
import type { KubernetesApi } from "../../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import {
  type ServiceAccount,
  serviceAccountToken,
} from "../../../scripts/peers/cluster/service-account-token.ts";
import type { KubernetesUnderTest } from "./use-kubernetes.ts";

/** The API as a service account that is there. Whoever asked for it closes it. */
export async function accountApi(
  { api, server, ca: caFile }: Pick<KubernetesUnderTest, "api" | "server" | "ca">,
  account: ServiceAccount,
): Promise<KubernetesApi> {
  const token = await serviceAccountToken(api, account, {}, AbortSignal.timeout(30_000));
  const ca = await readFile(caFile);
  const load = () => Promise.resolve({ headers: { Authorization: `Bearer ${token}` }, ca });
  return createHttpsApi({ cluster: { server: new URL(server), load }, clock: systemClock });
}

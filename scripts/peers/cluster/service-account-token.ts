import { z } from "zod";
import type { ClusterApi } from "./api.ts";

export type ServiceAccount = { readonly namespace: string; readonly name: string };

export type TokenOptions = {
  /** Whom it is for; the API server itself unless given. */
  readonly audience?: string;
  /** The Pod without which it counts no longer. */
  readonly pod?: { readonly name: string; readonly uid: string };
};

const dayInSeconds = 86_400;
const answer = z.object({ status: z.object({ token: z.string() }) });

/** A new token of a service account, good for a day. Rejects when there is no such account. */
export async function serviceAccountToken(
  api: ClusterApi,
  { namespace, name }: ServiceAccount,
  { audience, pod }: TokenOptions,
  signal: AbortSignal,
): Promise<string> {
  const spec = {
    expirationSeconds: dayInSeconds,
    ...(audience === undefined ? {} : { audiences: [audience] }),
    ...(pod === undefined ? {} : { boundObjectRef: { apiVersion: "v1", kind: "Pod", ...pod } }),
  };
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec };
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  return answer.parse(await api.create(path, request, signal)).status.token;
}

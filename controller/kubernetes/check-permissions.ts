import { fieldOf } from "./document.ts";
import { ApiRefusal, type KubernetesApi } from "./kubernetes-api.ts";
import { type Permission, staticEntryApi } from "./permissions.ts";

/**
 * Asks the API server whether we may do all of this, and whether what an extension has to bring is there. Resolves to
 * what is missing, a sentence each, all at once; empty if nothing is. Rejects as KubernetesApi does.
 */
export async function missingPermissions(
  api: Pick<KubernetesApi, "call">,
  permissions: readonly Permission[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const missing = await missingApi(api, permissions, signal);
  const asked = permissions.flatMap((permission) => permission.verbs.map((verb) => ({ permission, verb })));
  for (const { permission, verb } of asked)
    if (!(await allowed(api, permission, verb, signal))) missing.push(refusalOf(permission, verb));
  return missing;
}

/** https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-access-review-v1/ */
async function allowed(
  api: Pick<KubernetesApi, "call">,
  { group, resource, namespace }: Permission,
  verb: string,
  signal: AbortSignal,
): Promise<boolean> {
  const review = await api.call(
    {
      method: "POST",
      path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: {
          resourceAttributes: { group, resource, verb, ...(namespace === undefined ? {} : { namespace }) },
        },
      },
    },
    signal,
  );
  return fieldOf(fieldOf(review, "status"), "allowed") === true;
}

async function missingApi(
  api: Pick<KubernetesApi, "call">,
  permissions: readonly Permission[],
  signal: AbortSignal,
): Promise<string[]> {
  const { group, version, resource } = staticEntryApi;
  if (!permissions.some((permission) => permission.group === group)) return [];
  const words = `the cluster has no ${resource}.${group} of version ${version}: the CustomResourceDefinitions of spire-controller-manager are needed to give executors their identities`;
  try {
    const known = await api.call({ method: "GET", path: `/apis/${group}/${version}` }, signal);
    const resources = fieldOf(known, "resources");
    const there = Array.isArray(resources) && resources.some((one) => fieldOf(one, "name") === resource);
    return there ? [] : [words];
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === 404) return [words];
    // Whoever may not look may use it all the same.
    if (error instanceof ApiRefusal && error.status === 403) return [];
    throw error;
  }
}

function refusalOf({ group, resource, namespace, neededTo }: Permission, verb: string): string {
  const what = group === "" ? resource : `${resource}.${group}`;
  const where = namespace === undefined ? "in the cluster" : `in namespace ${namespace}`;
  return `may not ${verb} ${what} ${where}: needed to ${neededTo}`;
}

import { isDeepStrictEqual } from "node:util";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import type { ExecutorRequest } from "../backend.ts";
import { isJsonObject, type Json, type JsonObject } from "../../kubernetes/json.ts";
import type { PodPatch, PodSettings } from "./pod-settings.ts";
import { executorPod } from "./pod-spec.ts";
import { protectedFields } from "./protected-fields.ts";
import { strategicMerge } from "./strategic-merge.ts";

/** A patch of Pods that cannot be used, with all that is wrong, by field. Only an operator can help. */
export class PodPatchError extends Error {
  override readonly name = "PodPatchError";
}

/**
 * Reads a patch, a strategic merge patch of a Pod in YAML or JSON, and tries it on a Pod. Throws PodPatchError with
 * every mistake; it names fields and quotes no value.
 */
export function parsePodPatch(text: string): PodPatch {
  const patch = jsonOf(text);
  if (!isJsonObject(patch)) throw new PodPatchError("it is not a map, as in spec: {…}");
  applyPodPatch(executorPod(anyRequest, anySettings, 0), patch);
  return patch;
}

/**
 * The Pod with the patch merged into it. Throws PodPatchError if that is impossible or would change what the system
 * relies on: which fields that are says protected-fields.ts.
 */
export function applyPodPatch(pod: JsonObject, patch: PodPatch): JsonObject {
  const { result, mistakes } = strategicMerge(pod, patch);
  const changed = changes(protectedFields(pod), protectedFields(result));
  const all = [...mistakes, ...changed.map((field) => `${field}: the system relies on it`)];
  if (all.length > 0) throw new PodPatchError(all.join(", "));
  return result;
}

/** The Pod of one attempt as it is created. Throws PodPatchError, which `parsePodPatch` has thrown before. */
export function podManifest(
  request: ExecutorRequest,
  settings: PodSettings & { readonly patch?: PodPatch },
  now: number,
): JsonObject {
  const pod = executorPod(request, settings, now);
  return settings.patch === undefined ? pod : applyPodPatch(pod, settings.patch);
}

function changes(before: ReadonlyMap<string, Json>, after: ReadonlyMap<string, Json>): readonly string[] {
  const fields = new Set([...before.keys(), ...after.keys()]);
  return [...fields].filter((field) => !isDeepStrictEqual(before.get(field), after.get(field)));
}

function jsonOf(text: string): Json {
  try {
    const value: unknown = parseYaml(text);
    // Refuses what YAML can say and JSON cannot: a list that contains itself here, NaN below.
    JSON.stringify(value);
    return z.json().parse(value);
  } catch (error) {
    // The parser quotes the text.
    throw new PodPatchError("it is neither YAML nor JSON", { cause: error });
  }
}

/** A Pod with every field that one may have: which of them are protected is the same for all. */
const anyRequest: ExecutorRequest = {
  metadata: {
    owner: "owner",
    assignment: {
      id: "gitea-task-1",
      taskId: 1n,
      backend: "pod",
      repository: "owner/name",
      jobKey: "job",
      spiffeId: "spiffe://example.org/ci/owner/name/job",
      trust: "branch",
    },
    attempt: { number: 1, nonce: "0".repeat(32) },
    terminal: false,
  },
  environment: {
    CI_ASSIGNMENT_ID: "gitea-task-1",
    CI_BACKEND: "pod",
    CI_RUNNER_CAPABILITY: "none",
    CI_SPIFFE_ID: "spiffe://example.org/ci/owner/name/job",
    RUNNER_FACADE_URL: "https://facade.example.org",
    RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/facade",
  },
  deadlineAt: 3_600_000,
};

const anySettings: PodSettings = {
  namespace: "namespace",
  serviceAccount: "executor",
  image: "executor:1",
  uid: 2000,
  resources: { requests: { cpu: "1" }, limits: { memory: "1Gi" } },
  imagePullSecrets: ["secret"],
  nodeSelector: { "kubernetes.io/os": "linux" },
  tolerations: [{ operator: "Exists" }],
  runtimeClass: "class",
  dnsPolicy: "ClusterFirst",
};

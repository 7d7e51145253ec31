import { z } from "zod";
import type { Texts } from "../assignment/executor-metadata.ts";
import { parsePodPatch } from "../backends/pod/pod-patch.ts";
import type { PodPatch, PodResources, Toleration } from "../backends/pod/pod-settings.ts";
import { parentId } from "../backends/pod/pod-entry.ts";
import { checked, text } from "./fields.ts";

/** https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ */
export const dnsLabel = text.regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "it is not a name of Kubernetes");
const subdomain = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
export const objectName = text.max(253).regex(subdomain, "it is not a name of Kubernetes");

/** Names by commas. */
export const objectNames = checked(
  (value) => listOf(value).every((name) => objectName.safeParse(name).success),
  "it is not a list of names, divided by commas",
)
  .default("")
  .transform(listOf);

const labelKey = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

/** `key=value` by commas. */
export const labels = checked(
  (value) =>
    pairsOf(value).every(([key, word]) => labelKey.test(key) && word !== undefined && labelValue.test(word)),
  "it is not a list of key=value, divided by commas",
)
  .default("")
  .transform((value): Texts => Object.fromEntries(pairsOf(value).map(([key, word = ""]) => [key, word])));

const quantity = z.string().regex(/^[0-9]+(\.[0-9]+)?([mkMGTPE]|[KMGTPE]i|e[0-9]+)?$/);
const amounts = z.record(z.string().regex(labelKey), quantity).optional();
export const resources = json(
  z.strictObject({ requests: amounts, limits: amounts }),
  'it is not a JSON object such as {"limits":{"memory":"8Gi"}}',
).transform(({ requests, limits }): PodResources => ({
  ...(requests === undefined ? {} : { requests }),
  ...(limits === undefined ? {} : { limits }),
}));

const toleration = z.strictObject({
  key: z.string().regex(labelKey).exactOptional(),
  operator: z.enum(["Exists", "Equal"]).exactOptional(),
  value: z.string().regex(labelValue).exactOptional(),
  effect: z.enum(["NoSchedule", "PreferNoSchedule", "NoExecute"]).exactOptional(),
  tolerationSeconds: z.int().exactOptional(),
});
export const tolerations = json(
  z.array(toleration),
  'it is not a JSON list such as [{"key":"ci","operator":"Exists"}]',
).transform((list): readonly Toleration[] => list);

/** A part of a SPIFFE ID's path. */
export const pathSegment = text.regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]*$/, "it is not a part of a SPIFFE ID");

/** May hold `{cluster}` and `{nodeUid}`. */
export const agentId = checked(
  (value) => parentId(value, { cluster: "cluster", nodeUid: "node" }),
  "it is neither a SPIFFE ID nor a template of one with {cluster} and {nodeUid}",
);

/** A file with a patch of Pods; its content takes the place of its path. */
export function patchFile(read: (path: string) => string) {
  const patch = (path: string): PodPatch => parsePodPatch(read(path));
  return checked(patch).transform(patch);
}

/** A text in JSON. What is wrong with it is not told: it may be anything. */
function json<T>(form: z.ZodType<T>, mistake: string) {
  return text.transform((value, context): T => {
    const parsed = form.safeParse(jsonOf(value));
    if (parsed.success) return parsed.data;
    context.addIssue({ code: "custom", message: mistake });
    return z.NEVER;
  });
}

/** Undefined, which is nothing that is wanted, for what is no JSON. */
function jsonOf(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}

function listOf(value: string): readonly string[] {
  return value === "" ? [] : value.split(",").map((part) => part.trim());
}

function pairsOf(value: string): readonly (readonly [string, string | undefined])[] {
  return listOf(value).map((pair) => {
    const at = pair.indexOf("=");
    return at === -1 ? [pair, undefined] : [pair.slice(0, at), pair.slice(at + 1)];
  });
}

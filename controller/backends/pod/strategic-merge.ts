import { isJsonObject, type Json, type JsonObject } from "../../kubernetes/json.ts";

/**
 * The lists of a Pod whose items are merged one by one, and the field that tells them apart, as the Kubernetes API
 * declares them (`patchMergeKey` in k8s.io/api/core/v1). Any other list, tolerations among them, is replaced whole.
 */
const mergeKeys: ReadonlyMap<string, string> = new Map([
  ["spec.volumes", "name"],
  ["spec.imagePullSecrets", "name"],
  ["spec.hostAliases", "ip"],
  ["spec.topologySpreadConstraints", "topologyKey"],
  ["spec.resourceClaims", "name"],
  ["spec.schedulingGates", "name"],
  ...["spec.containers", "spec.initContainers"].flatMap((containers): [string, string][] => [
    [containers, "name"],
    [`${containers}.env`, "name"],
    [`${containers}.ports`, "containerPort"],
    [`${containers}.volumeMounts`, "mountPath"],
    [`${containers}.volumeDevices`, "devicePath"],
  ]),
]);

export type Merged = {
  readonly result: JsonObject;
  /** What cannot be merged, each beginning with the path of its field. The result leaves these out. */
  readonly mistakes: readonly string[];
};

/**
 * Merges a strategic merge patch into a Pod: maps by key, the lists above by item, null removes a field. What only
 * makes sense for a client that computes patches (`$patch`, `$retainKeys` and their like) is refused.
 */
export function strategicMerge(pod: JsonObject, patch: JsonObject): Merged {
  const mistakes: string[] = [];
  const result = mergeMap(pod, patch, { shown: "", pattern: "" }, mistakes);
  return { result, mistakes };
}

/** Where in the Pod: for people, with the names of list items, and for the table above, without. */
type Place = { readonly shown: string; readonly pattern: string };

function mergeValue(before: Json | undefined, patch: Json, at: Place, mistakes: string[]): Json | undefined {
  if (isJsonObject(patch)) {
    if (before === undefined || isJsonObject(before)) return mergeMap(before ?? {}, patch, at, mistakes);
    mistakes.push(`${at.shown}: it is not a map in a Pod`);
    return before;
  }
  if (Array.isArray(patch)) return mergeList(before, patch as readonly Json[], at, mistakes);
  if (typeof before === "object" && before !== null) {
    mistakes.push(`${at.shown}: it is a ${Array.isArray(before) ? "list" : "map"} in a Pod`);
    return before;
  }
  return patch;
}

function mergeMap(before: JsonObject, patch: JsonObject, at: Place, mistakes: string[]): JsonObject {
  const result = new Map(Object.entries(before));
  for (const [key, value] of Object.entries(patch)) {
    const inside = below(at, key);
    if (key.startsWith("$")) mistakes.push(`${inside.shown}: directives are not supported`);
    else if (value === null) result.delete(key);
    else {
      const merged = mergeValue(result.get(key), value, inside, mistakes);
      if (merged !== undefined) result.set(key, merged);
    }
  }
  return Object.fromEntries(result);
}

function mergeList(
  before: Json | undefined,
  patch: readonly Json[],
  at: Place,
  mistakes: string[],
): Json | undefined {
  if (before !== undefined && !Array.isArray(before)) {
    mistakes.push(`${at.shown}: it is not a list in a Pod`);
    return before;
  }
  const key = mergeKeys.get(at.pattern);
  if (key === undefined) {
    patch.forEach((item, index) => findDirectives(item, `${at.shown}[${index}]`, mistakes));
    return patch;
  }
  const result = [...((before ?? []) as readonly Json[])];
  const patched = new Set<Json>();
  patch.forEach((item, index) => {
    const name = isJsonObject(item) ? item[key] : undefined;
    if (!isJsonObject(item) || (typeof name !== "string" && typeof name !== "number")) {
      mistakes.push(`${at.shown}[${index}].${key}: it is needed, to know which item is meant`);
      return;
    }
    const inside = { ...at, shown: `${at.shown}[${name}]` };
    if (patched.has(name)) {
      mistakes.push(`${inside.shown}: it comes twice`);
      return;
    }
    patched.add(name);
    const found = result.findIndex((other) => isJsonObject(other) && other[key] === name);
    const place = found === -1 ? result.length : found;
    const merged = mergeValue(result[place], item, inside, mistakes);
    if (merged !== undefined) result[place] = merged;
  });
  return result;
}

function findDirectives(value: Json, shown: string, mistakes: string[]): void {
  if (Array.isArray(value))
    (value as readonly Json[]).forEach((item, index) => findDirectives(item, `${shown}[${index}]`, mistakes));
  if (!isJsonObject(value)) return;
  for (const [key, inside] of Object.entries(value))
    if (key.startsWith("$")) mistakes.push(`${shown}.${key}: directives are not supported`);
    else findDirectives(inside, `${shown}.${key}`, mistakes);
}

/** A name that would be taken for several stands in brackets. */
function below({ shown, pattern }: Place, key: string): Place {
  const plain = /^[\w$-]+$/.test(key);
  const joined = (path: string) => (path === "" ? key : `${path}.${key}`);
  return { shown: plain ? joined(shown) : `${shown}[${key}]`, pattern: joined(pattern) };
}

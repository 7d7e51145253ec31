import path from "node:path";
import { isJsonObject, type Json, type JsonObject } from "../../kubernetes/json.ts";
import { dockerVolume, executorContainer, socketVolume } from "./pod-spec.ts";

/**
 * What the system relies on in an executor's Pod: whose it is and how it is found again, what it may reach, who it
 * is towards SPIRE, when it ends and how its end is read. Everything else is the operator's.
 */
const protectedSpec = [
  "restartPolicy",
  "activeDeadlineSeconds",
  "serviceAccountName",
  "serviceAccount",
  "automountServiceAccountToken",
  "hostNetwork",
  "hostPID",
  "hostIPC",
  // In a user namespace the agent would see another uid than the entry's, see spiffe/spire's unix attestor.
  "hostUsers",
  // Other containers would see the executor's processes, and their environment.
  "shareProcessNamespace",
  // The scheduler would be passed over, and with it the wait for room.
  "nodeName",
  "ephemeralContainers",
];

const protectedContainer = [
  "image",
  "command",
  "args",
  "terminationMessagePath",
  "terminationMessagePolicy",
  // They would end or restart an executor that is busy, or hold its start up until after its attestation.
  "lifecycle",
  "livenessProbe",
  "startupProbe",
  "restartPolicy",
  "restartPolicyRules",
];

const protectedSecurity = [
  "privileged",
  "runAsUser",
  "runAsGroup",
  "runAsNonRoot",
  "allowPrivilegeEscalation",
];

const ownMetadata = /^ci\.ddupan\.top\//;
const ownVariables = /^(CI_|RUNNER_|SPIFFE_)/;
const ownVolumes: readonly string[] = [socketVolume.name, dockerVolume.name];

/**
 * The value of every protected field that is there, by the path under which people know it. Two Pods with equal
 * ones are equal as far as the system relies on them. Total: anything may be passed for a Pod.
 */
export function protectedFields(pod: JsonObject): ReadonlyMap<string, Json> {
  const fields = new Map<string, Json>();
  const { metadata, spec, ...top } = pod;
  take(fields, "", top, () => true);
  if (isJsonObject(metadata)) {
    const { labels, annotations, ...own } = metadata;
    // Finalizers and owners among them: they would decide about its end.
    take(fields, "metadata.", own, () => true);
    takeIn(fields, "metadata.labels", labels, (key) => ownMetadata.test(key));
    takeIn(fields, "metadata.annotations", annotations, (key) => ownMetadata.test(key));
  }
  if (!isJsonObject(spec)) return fields;
  take(fields, "spec.", spec, (key) => protectedSpec.includes(key));
  for (const volume of items(spec["volumes"])) takeVolume(fields, volume);
  for (const container of items(spec["containers"]))
    if (container["name"] === executorContainer) takeContainer(fields, container);
  for (const container of items(spec["initContainers"]))
    if (container["name"] === executorContainer)
      fields.set(`spec.initContainers[${executorContainer}]`, container);
  return fields;
}

function takeContainer(fields: Map<string, Json>, container: JsonObject): void {
  const at = `spec.containers[${executorContainer}]`;
  fields.set(at, "there");
  take(fields, `${at}.`, container, (key) => protectedContainer.includes(key));
  takeIn(fields, `${at}.securityContext`, container["securityContext"], (key) =>
    protectedSecurity.includes(key),
  );
  for (const variable of items(container["env"])) {
    const name = nameOf(variable["name"]);
    if (ownVariables.test(name)) fields.set(`${at}.env[${name}]`, variable);
  }
  for (const mount of items(container["volumeMounts"])) {
    const place = nameOf(mount["mountPath"]);
    if (hidesOurs(place) || ownVolumes.includes(nameOf(mount["name"])))
      fields.set(`${at}.volumeMounts[${place}]`, mount);
  }
}

/** How large Docker's data may be, and on what it lies, is the operator's; that it is the Pod's own is not. */
function takeVolume(fields: Map<string, Json>, volume: JsonObject): void {
  const name = nameOf(volume["name"]);
  const at = `spec.volumes[${name}]`;
  const { emptyDir, ...rest } = volume;
  if (name === socketVolume.name) fields.set(at, volume);
  if (name === dockerVolume.name) fields.set(at, { ...rest, emptyDir: isJsonObject(emptyDir) });
  const projected = volume["projected"];
  if (!isJsonObject(projected)) return;
  for (const source of items(projected["sources"]))
    if ("serviceAccountToken" in source) fields.set(`${at}.projected.sources.serviceAccountToken`, source);
}

/** A mount at or in a folder of ours. One above it is mounted first, and ours on top of it. */
function hidesOurs(mountPath: string): boolean {
  const normal = path.posix.normalize(`${mountPath}/`);
  return [socketVolume.folder, dockerVolume.folder].some((folder) => normal.startsWith(`${folder}/`));
}

function take(
  fields: Map<string, Json>,
  at: string,
  from: JsonObject,
  which: (key: string) => boolean,
): void {
  for (const [key, value] of Object.entries(from)) if (which(key)) fields.set(at + key, value);
}

function takeIn(
  fields: Map<string, Json>,
  at: string,
  from: Json | undefined,
  which: (key: string) => boolean,
): void {
  if (!isJsonObject(from)) return;
  for (const [key, value] of Object.entries(from))
    if (which(key)) fields.set(/^\w+$/.test(key) ? `${at}.${key}` : `${at}[${key}]`, value);
}

function items(list: Json | undefined): readonly JsonObject[] {
  return Array.isArray(list) ? (list as readonly Json[]).filter(isJsonObject) : [];
}

function nameOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

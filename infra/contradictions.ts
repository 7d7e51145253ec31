import { trustDomain as trustDomainField } from "./setting-fields.ts";
import type { Settings } from "./settings.ts";
import { valueAt } from "./value-at.ts";

/**
 * What of a stack's configuration does not fit together, seen from what was given, so that it is told with all else.
 * `components` are those that are selected, undefined where they are none.
 */
export function contradictions(
  given: Readonly<Record<string, unknown>>,
  components: Settings["components"] | undefined,
): readonly string[] {
  const at = (key: string) => valueAt(given, key.split("."));
  return [
    ...(components === undefined
      ? []
      : [...ofComponents(components, at), ...ofNodes(components, at), ...ofQuota(components, at)]),
    ...ofIdentities(at),
    ...ofVms(at),
    ...ofImages(at),
    ...ofNetwork(at),
  ];
}

type At = (key: string) => unknown;

function ofComponents(components: Settings["components"], at: At): readonly string[] {
  const mistakes: string[] = [];
  if (!components.includes("scheduler"))
    mistakes.push("components: a worker needs the scheduler in the same process");
  if (components.every((one) => one === "scheduler")) mistakes.push("components: a scheduler needs a worker");
  if (components.includes("vm-worker") && at("vm") === undefined)
    mistakes.push("vm: it is required with vm-worker");
  if (components.includes("pod-worker") && at("spire") !== undefined && at("spire.agentId") === undefined)
    mistakes.push("spire.agentId: it is required with pod-worker");
  return mistakes;
}

function ofIdentities(at: At): readonly string[] {
  const [agentId, trustDomain] = [at("spire.agentId"), at("spire.trustDomain")];
  const mistakes: string[] = [];
  if (
    typeof agentId === "string" &&
    typeof trustDomain === "string" &&
    trustDomainField.safeParse(trustDomain).success &&
    !agentId.startsWith(`spiffe://${trustDomain}/`)
  )
    mistakes.push("spire.agentId: it is not below spire.trustDomain");
  if (at("vm.identity") === "guest-agent" && at("spire.serverApi") === undefined)
    mistakes.push("spire.serverApi: it is required with vm.identity guest-agent");
  return mistakes;
}

function ofVms(at: At): readonly string[] {
  const [api, warm, capacity] = [at("vm.api"), at("vm.pool.warm"), at("vm.capacity") ?? 1];
  const mistakes: string[] = [];
  if (at("vm.ca") !== undefined && typeof api === "string" && !api.startsWith("https:"))
    mistakes.push("vm.ca: it does nothing without https in vm.api");
  if (typeof warm === "number" && typeof capacity === "number" && warm > capacity)
    mistakes.push("vm.pool.warm: it is more than vm.capacity");
  return mistakes;
}

function ofImages(at: At): readonly string[] {
  if (at("images.source") !== "published") return [];
  return ["controller", "runner"]
    .filter((name) => at(`images.${name}.digest`) === undefined)
    .map((name) => `images.${name}.digest: it is required with images.source published`);
}

function ofNetwork(at: At): readonly string[] {
  if (at("network.policies") !== false) return [];
  return ["internal", "allowed", "controller"]
    .filter((name) => at(`network.${name}`) !== undefined)
    .map((name) => `network.${name}: it does nothing without network.policies`);
}

/** The controller keeps off the nodes of executors, so it cannot be sent there. */
function ofNodes(components: Settings["components"], at: At): readonly string[] {
  const wanted = at("controller.nodeSelector");
  const selectors = [
    ...(components.includes("pod-worker") ? ["pod.nodeSelector"] : []),
    ...(components.includes("vm-worker") ? ["vm.pool.nodeSelector"] : []),
  ];
  return selectors
    .filter((key) => {
      const labels = entriesOf(at(key));
      return labels.length > 0 && labels.every(([name, value]) => valueAt(wanted, [name]) === value);
    })
    .map((key) => `controller.nodeSelector: it names the nodes of ${key}, where the controller never runs`);
}

/** Kubernetes makes no Pod that does not say what it takes of something that is limited, for these two. */
function ofQuota(components: Settings["components"], at: At): readonly string[] {
  if (!components.includes("pod-worker")) return [];
  const named = (part: "requests" | "limits", of: string) =>
    valueAt(at("pod.resources"), [part, of]) !== undefined;
  return entriesOf(at("pod.quota")).flatMap(([key]) => {
    const { part = "requests", of } =
      /^((?<part>requests|limits)\.)?(?<of>cpu|memory)$/.exec(key)?.groups ?? {};
    if (of === undefined) return [];
    const told = named("limits", of) || (part === "requests" && named("requests", of));
    return told ? [] : [`pod.resources: it needs ${part}.${of}, or pod.quota lets no executor start`];
  });
}

function entriesOf(value: unknown): readonly (readonly [string, unknown])[] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}

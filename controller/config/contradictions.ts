import { neededForLocal } from "./local.ts";
import { components } from "./variables.ts";
import { neededForGuestAgents } from "./vm.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The variables that count. An empty one is what a manifest leaves behind, it is as good as absent; what belongs
 * to a component that is not selected is not looked at.
 */
export function relevantVariables(environment: Environment): Environment {
  const set = Object.entries(environment).filter(([, value]) => value !== "");
  const given: Environment = Object.fromEntries(set);
  const selected = selectedComponents(given);
  const vm = selected.includes("vm-worker");
  const sandbox = vm && given["VM_BACKEND"] !== "local";
  const guests = usesGuestAgents(given);
  const pods = selected.includes("pod-worker");
  const counts: readonly (readonly [belongs: RegExp, counts: boolean])[] = [
    [/^POD_/, pods],
    [/^SPIRE_(AGENT_ID|CLUSTER)$/, pods],
    [/^SPIRE_(CLASS|SVID_TTL_SECONDS)$/, pods || guests],
    [/^(SPIRE_SERVER_API|VM_SPIRE_SERVER)$/, guests],
    [/^VM_/, vm],
    [/^(OPENSANDBOX_.*|VM_IDENTITY|VM_SPIFFE_SOCKET|VM_EXECUTOR_UID)$/, sandbox],
    [/^LOCAL_SPIRE_/, given["LOCAL_IDENTITY"] === "spire"],
  ];
  return Object.fromEntries(
    set.filter(([name]) => counts.every(([belongs, yes]) => yes || !belongs.test(name))),
  );
}

/** Whether VMs have agents of their own. */
function usesGuestAgents(given: Environment): boolean {
  const sandbox = selectedComponents(given).includes("vm-worker") && given["VM_BACKEND"] !== "local";
  return sandbox && given["VM_IDENTITY"] === "guest-agent";
}

/** Seen from the bare environment, so that it is told with all else. */
export function contradictions(given: Environment): string[] {
  const selected = selectedComponents(given);
  const mistakes: string[] = [];
  const known = selected.every((part) => components.some((component) => component === part));
  if (known && !selected.includes("scheduler"))
    mistakes.push("COMPONENTS: a worker needs the scheduler in the same process, claims live there");
  if (known && !selected.includes("pod-worker") && !selected.includes("vm-worker"))
    mistakes.push("COMPONENTS: a scheduler needs a worker");
  if (!["vm", "vm-dev"].includes(given["VM_RUNNER_LABEL"] ?? "vm"))
    mistakes.push("VM_RUNNER_LABEL: it is neither vm nor vm-dev");
  if (given["NODE_ENV"] === "production")
    for (const name of ["POD_BACKEND", "VM_BACKEND"])
      if (given[name] === "local")
        mistakes.push(`${name}: local is for the quick start and tests, never with NODE_ENV=production`);
  if (given["OPENSANDBOX_CA_FILE"] !== undefined && given["OPENSANDBOX_API"]?.startsWith("http:") === true)
    mistakes.push("OPENSANDBOX_CA_FILE: OPENSANDBOX_API is not https, so that nothing is verified");
  const locally = given["POD_BACKEND"] === "local" || given["VM_BACKEND"] === "local";
  const tested = given["NODE_ENV"] === "test" || (locally && given["NODE_ENV"] !== "production");
  if (given["RUNNER_TIMES"] !== undefined && !tested)
    mistakes.push("RUNNER_TIMES: it is for tests, with local executors or with NODE_ENV=test");
  const trustDomain = given["TRUST_DOMAIN"];
  for (const name of ["RUNNER_FACADE_SPIFFE_ID", "LOCAL_SPIRE_PARENT_ID", "SPIRE_AGENT_ID"]) {
    const id = given[name];
    if (id !== undefined && trustDomain !== undefined && !id.startsWith(`spiffe://${trustDomain}/`))
      mistakes.push(`${name}: it is not below TRUST_DOMAIN`);
  }
  return mistakes;
}

/** What the selected components need. */
export function missingByComponent(given: Environment): string[] {
  const selected = selectedComponents(given);
  const needs: string[] = [];
  if (selected.includes("pod-worker") && given["POD_BACKEND"] !== "local")
    needs.push("POD_EXECUTOR_IMAGE", "SPIRE_AGENT_ID");
  if (selected.includes("vm-worker") && given["VM_BACKEND"] !== "local")
    needs.push("OPENSANDBOX_API", "OPENSANDBOX_API_KEY_FILE");
  if (usesGuestAgents(given)) needs.push(...neededForGuestAgents(given["SPIRE_SERVER_API"]));
  if (given["POD_BACKEND"] === "local" || given["VM_BACKEND"] === "local")
    needs.push(...neededForLocal(given["LOCAL_IDENTITY"]));
  // Who leads is decided by a Lease, and a person is to read there which of them it is.
  else needs.push("CONTROLLER_NAMESPACE", "HOSTNAME");
  return needs.filter((name) => given[name] === undefined).map((name) => `${name} is required`);
}

function selectedComponents(given: Environment): readonly string[] {
  return (given["COMPONENTS"] ?? components.join(",")).split(",").map((part) => part.trim());
}

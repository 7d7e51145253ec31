import type { z } from "zod";
import { type Settings, settingsSchema } from "./settings.ts";

/** Secrets of a stack; `pulumi config set --secret NAME`. */
export const secretNames = [
  "giteaRunnerToken",
  "natsPassword",
  "capabilityKeys",
  "openSandboxApiKey",
] as const;
export type SecretName = (typeof secretNames)[number];

/** What is wrong with a stack's configuration, all of it, by key. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";

  constructor(mistakes: readonly string[]) {
    super(`the stack's configuration is not usable:\n${mistakes.map((one) => `  ${one}`).join("\n")}`);
  }
}

/**
 * Reads what a stack configures: `given` by key, `secrets` by the names of those that are set. Throws SettingsError
 * with every mistake at once.
 */
export function readSettings(
  given: Readonly<Record<string, unknown>>,
  secrets: ReadonlySet<string>,
): Settings {
  const parsed = settingsSchema.safeParse(given);
  const mistakes = parsed.success ? [] : parsed.error.issues.flatMap(mistakesOf);
  if (parsed.success) mistakes.push(...contradictions(parsed.data));
  const components =
    parsed.data?.components ?? settingsSchema.shape.components.parse(given["components"] ?? undefined);
  const needed = secretNames.filter(
    (name) => name !== "openSandboxApiKey" || components.includes("vm-worker"),
  );
  for (const name of needed)
    if (!secrets.has(name))
      mistakes.push(`${name}: it is required, set it by pulumi config set --secret ${name}`);
  if (mistakes.length > 0 || !parsed.success) throw new SettingsError(mistakes);
  return parsed.data;
}

function mistakesOf(issue: z.core.$ZodIssue): readonly string[] {
  const where = issue.path.join(".");
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => `${where === "" ? key : `${where}.${key}`}: there is no such key`);
  const isMissing = issue.code === "invalid_type" && issue.input === undefined;
  return [`${where}: ${isMissing ? "it is required" : issue.message}`];
}

function contradictions(settings: Settings): readonly string[] {
  const { components, spire, vm, images, network } = settings;
  const mistakes: string[] = [];
  const workers = components.filter((one) => one !== "scheduler");
  if (!components.includes("scheduler"))
    mistakes.push("components: a worker needs the scheduler in the same process");
  if (workers.length === 0) mistakes.push("components: a scheduler needs a worker");
  if (components.includes("vm-worker") && vm === undefined)
    mistakes.push("vm: it is required with vm-worker");
  if (components.includes("pod-worker") && spire.agentId === undefined)
    mistakes.push("spire.agentId: it is required with pod-worker");
  if (spire.agentId !== undefined && !spire.agentId.startsWith(`spiffe://${spire.trustDomain}/`))
    mistakes.push("spire.agentId: it is not below spire.trustDomain");
  if (vm?.identity === "guest-agent" && spire.serverApi === undefined)
    mistakes.push("spire.serverApi: it is required with vm.identity guest-agent");
  if (vm?.ca !== undefined && !vm.api.startsWith("https:"))
    mistakes.push("vm.ca: it does nothing without https in vm.api");
  if (images.source === "published")
    for (const name of ["controller", "runner"] as const)
      if (images[name].digest === undefined)
        mistakes.push(`images.${name}.digest: it is required with images.source published`);
  if (!network.policies && network.allowed.length > 0)
    mistakes.push("network.allowed: it does nothing without network.policies");
  return mistakes;
}

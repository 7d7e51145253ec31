import { contradictions } from "./contradictions.ts";
import { mistakesOf } from "./setting-mistakes.ts";
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
 * Reads what a stack configures: `given` by key, `secrets` by the names of those that are set, and what is
 * wrong with these. Throws SettingsError with every mistake at once.
 */
export function readSettings(
  given: Readonly<Record<string, unknown>>,
  secrets: ReadonlySet<string>,
  wrongSecrets: readonly string[] = [],
): Settings {
  const parsed = settingsSchema.safeParse(given);
  const mistakes = parsed.success ? [] : [...mistakesOf(parsed.error, given)];
  const components = settingsSchema.shape.components.safeParse(given["components"]).data;
  mistakes.push(...contradictions(given, components));
  for (const name of secretsFor(components ?? []))
    if (!secrets.has(name))
      mistakes.push(`${name}: it is required, set it by pulumi config set --secret ${name}`);
  mistakes.push(...wrongSecrets);
  if (mistakes.length > 0 || !parsed.success) throw new SettingsError(mistakes);
  return parsed.data;
}

/** Those that a controller of these components has a use for. */
export function secretsFor(components: Settings["components"]): readonly SecretName[] {
  return secretNames.filter((name) => name !== "openSandboxApiKey" || components.includes("vm-worker"));
}

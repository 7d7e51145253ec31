import { copyFile, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { parse, stringify } from "yaml";

const top = path.join(import.meta.dirname, "../../..");

/** What the engine runs: the platform as it is, or its queue alone, which needs no cluster. */
export type ProgramName = "platform" | "queue";

const programs: Readonly<Record<ProgramName, string>> = {
  platform: "infra/index.ts",
  queue: "test/support/infra/queue-program.ts",
};

/**
 * Makes a project with the repository's own Pulumi.yaml, so that the engine finds the provider as it does for everybody, but with
 * stacks of its own: the CLI writes into their files.
 */
export async function makeProject(folder: string, program: ProgramName): Promise<void> {
  await mkdir(path.join(folder, "stacks"), { recursive: true });
  await copyFile(path.join(top, "Pulumi.yaml"), path.join(folder, "Pulumi.yaml"));
  const manifest = { type: "module", main: programs[program] };
  await writeFile(path.join(folder, "package.json"), JSON.stringify(manifest));
  for (const name of ["infra", "test", "node_modules"])
    await symlink(path.join(top, name), path.join(folder, name));
}

/** Replaces what a stack's file says in clear; secrets, and how they are encrypted, stay. */
export async function writeSettings(
  folder: string,
  stack: string,
  settings: Readonly<Record<string, unknown>>,
): Promise<void> {
  const file = path.join(folder, "stacks", `Pulumi.${stack}.yaml`);
  const before: unknown = parse(await readFile(file, "utf8"));
  const all = isRecord(before) ? before : {};
  const config = isRecord(all["config"]) ? all["config"] : {};
  const secrets = Object.entries(config).filter(([, value]) => isRecord(value) && "secure" in value);
  await writeFile(file, stringify({ ...all, config: { ...settings, ...Object.fromEntries(secrets) } }));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

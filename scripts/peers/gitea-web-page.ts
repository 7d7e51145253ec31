import { mkdir, symlink } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { onPath } from "./find-peer.ts";
import type { Step } from "./report.ts";
import { runCommand } from "./run-command.ts";

const pnpm = "pnpm@11.9.0";
const installDeadlineMs = 5 * 60_000;
const buildDeadlineMs = 10 * 60_000;

/** Where the server looks for the list of built files; without it pages come without script and style. */
export const webManifest = join("public", "assets", ".vite", "manifest.json");

/**
 * Builds Gitea's front end in place, in a copy of its module that may be written to; `tools` is a folder for what that takes.
 * Rejects when the npm registry is out of reach or the build fails; `public` may be half-built then.
 */
export async function buildWebPage(
  module: string,
  tools: string,
  options: { readonly environment: NodeJS.ProcessEnv; readonly step: Step },
  signal: AbortSignal,
): Promise<void> {
  await mkdir(join(tools, "bin"), { recursive: true });
  await symlink(process.execPath, join(tools, "bin", "node"));
  const environment = webEnvironment(options.environment, tools);
  const npm = await onPath("npm", environment);
  if (npm === undefined) throw new Error("npm is not on PATH");
  const run = async (program: string, args: readonly string[], deadline: number) => {
    options.step.detail([program, ...args.slice(0, 2)].join(" "));
    return await runCommand({ program, args, folder: module, environment, deadline }, signal);
  };
  const quick = ["--fetch-retries=1", "--fetch-timeout=60000"];
  await run("npm", ["install", pnpm, "--prefix", tools, "--ignore-scripts", ...quick], installDeadlineMs);
  const store = ["--store-dir", join(tools, "store")];
  const install = ["install", "--frozen-lockfile", "--ignore-scripts", ...store, ...quick];
  await run("pnpm", install, installDeadlineMs);
  await run("pnpm", ["exec", "vite", "build"], buildDeadlineMs);
}

/** This process's own Node first: Gitea's build asks for a newer one than the machine may have. */
function webEnvironment(environment: NodeJS.ProcessEnv, tools: string): NodeJS.ProcessEnv {
  const path = [join(tools, "bin"), join(tools, "node_modules", ".bin"), environment["PATH"] ?? ""];
  // With CI set, Gitea's build takes every warning for an error.
  const { CI: _ci, ...rest } = environment;
  return { ...rest, PATH: path.join(delimiter), NODE_ENV: "production" };
}

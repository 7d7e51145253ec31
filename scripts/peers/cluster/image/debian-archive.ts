import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { runCommand } from "../../run-command.ts";
import { debianProgram, systemEnvironment } from "../obstacle.ts";
import { cachedLayer, type LayerOptions } from "./cached-layer.ts";
import type { Layer } from "./layer.ts";

const deadline = 20 * 60_000;

/** A small Debian out of its archive, made by mmdebstrap: two minutes, once for each recipe. */
export type DebianRecipe = {
  /** Of the layer in the cache. */
  readonly name: string;
  readonly suite: string;
  readonly packages?: readonly string[];
  /** Shell commands at the end; `$1` is the root. */
  readonly afterwards: readonly string[];
  /** Variables of mmdebstrap's, besides the system's. */
  readonly variables?: Readonly<Record<string, string>>;
};

export async function debianFromArchive(
  { name, suite, packages = [], afterwards, variables = {} }: DebianRecipe,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  const recipe = [
    "--variant=minbase",
    ...(packages.length === 0 ? [] : [`--include=${packages.join(",")}`]),
    ...["man", "doc", "info", "locale"].map((part) => `--dpkgopt=path-exclude=/usr/share/${part}/*`),
    ...afterwards.map((command) => `--customize-hook=${command}`),
  ];
  const key = createHash("sha256")
    .update(JSON.stringify([suite, recipe]))
    .digest("hex")
    .slice(0, 12);
  const environment = systemEnvironment(options.environment);
  const make = async (file: string, abort: AbortSignal) => {
    const program = await debianProgram("mmdebstrap", environment);
    const args = ["--quiet", ...recipe, suite, file];
    // Where it works; others' temporary folders may be too small.
    const inside = { ...environment, ...variables, TMPDIR: dirname(file) };
    await runCommand({ program, args, environment: inside, deadline, folder: dirname(file) }, abort);
  };
  return await cachedLayer({ name, key, make }, options, signal);
}

import { readFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { isMissing } from "./error-code.ts";

export type InstalledPackage = {
  /** Below the root, such as `node_modules/pino`. */
  readonly folder: string;
  /** `name@version` */
  readonly id: string;
};

const names = z.record(z.string(), z.string()).default({});
const manifest = z.object({
  name: z.string(),
  version: z.string(),
  dependencies: names,
  optionalDependencies: names,
  peerDependencies: names,
});

/**
 * The packages that these need to run, themselves included, as Node finds them from `root`; ordered by folder.
 * Optional and peer dependencies count if they are installed. Rejects, naming it, for one that is needed and is not.
 */
export async function packageClosure(
  root: string,
  packages: readonly string[],
): Promise<readonly InstalledPackage[]> {
  const found = new Map<string, InstalledPackage>();
  const add = async (name: string, from: string, needed: boolean): Promise<void> => {
    const installed = await locate(root, name, from);
    if (installed === undefined) {
      if (needed) throw new Error(`package ${name}, needed by ${from || "the program"}, is not installed`);
      return;
    }
    const { folder, content } = installed;
    if (found.has(folder)) return;
    found.set(folder, { folder, id: `${content.name}@${content.version}` });
    for (const dependency of Object.keys(content.dependencies))
      await add(dependency, folder, content.optionalDependencies[dependency] === undefined);
    const others = { ...content.optionalDependencies, ...content.peerDependencies };
    for (const dependency of Object.keys(others)) await add(dependency, folder, false);
  };
  for (const name of packages) await add(name, "", true);
  return [...found.values()].toSorted((a, b) => (a.folder < b.folder ? -1 : 1));
}

/** Node's own search: the nearest `node_modules`, from the folder that asks up to the root. */
async function locate(root: string, name: string, from: string) {
  for (let at = from; ; at = path.dirname(at)) {
    const folder = path.join(at, "node_modules", name);
    const content = await readManifest(path.join(root, folder, "package.json"));
    if (content !== undefined) return { folder, content };
    if (at === "" || at === ".") return undefined;
  }
}

async function readManifest(file: string): Promise<z.infer<typeof manifest> | undefined> {
  try {
    return manifest.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new Error(`${file} cannot be read`, { cause: error });
  }
}

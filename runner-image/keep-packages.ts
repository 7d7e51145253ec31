import { readdir, rm } from "node:fs/promises";
import { join, sep } from "node:path";
import { isMissing } from "../controller/backends/local/error-code.ts";
import { packageClosure } from "../controller/backends/local/package-closure.ts";
import { bootstrapPackages } from "../controller/backends/local/stage-program.ts";

/**
 * Run while the image is built, in the folder of the program: removes the packages that the bootstrap does not need. The
 * controller's are many, and a job has no use for them.
 */
const root = join(import.meta.dirname, "..");
const installed = await packageClosure(root, bootstrapPackages);
const kept = installed.map(({ folder }) => join(root, folder));
await keepOnly(join(root, "node_modules"));

/** Removes what is neither kept nor on the way to what is. */
async function keepOnly(folder: string): Promise<void> {
  for (const name of await namesIn(folder)) {
    const entry = join(folder, name);
    if (kept.includes(entry)) {
      await keepOnly(join(entry, "node_modules"));
    } else if (kept.some((other) => other.startsWith(entry + sep))) {
      await keepOnly(entry);
    } else {
      await rm(entry, { recursive: true });
    }
  }
}

/** None where the folder is not there: few packages have packages of their own. */
async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

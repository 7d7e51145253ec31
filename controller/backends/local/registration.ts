import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { parseSpiffeId } from "../../identity/spiffe-id.ts";
import { isMissing } from "./error-code.ts";
import { removeTree, writeFileAtomically } from "./files.ts";
import { entryFile, serialiseEntry } from "./workload-entry.ts";

/** The executors' entries with the development Workload API. Both calls may be repeated. */
export type Registration = {
  add(name: string, spiffeId: string, uid: number | null): Promise<void>;
  remove(name: string): Promise<void>;
};

export function createRegistration(folder: string): Registration {
  return {
    add: async (name, spiffeId, uid) => {
      const file = entryFile(folder, name);
      const text = serialiseEntry({ spiffeId: parseSpiffeId(spiffeId), uid });
      // Written again, it would look like a new one to the Workload API.
      if ((await textOf(file)) === text) return;
      await mkdir(path.dirname(file), { recursive: true });
      await writeFileAtomically(file, text, 0o600);
    },
    remove: (name) => removeTree(entryFile(folder, name)),
  };
}

async function textOf(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

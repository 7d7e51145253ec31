import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { parseSpiffeId } from "../../identity/spiffe-id.ts";
import { isMissing } from "./error-code.ts";
import { removeTree, writeFileAtomically } from "./files.ts";
import type { Registration } from "./registration.ts";
import { entryFile, serialiseEntry, socketPath } from "./workload-entry.ts";

/**
 * Entries with the development Workload API, which gives each executor a socket of its own: a uid is no identity
 * there. Its entries name no owner, so there is nothing to sweep. Throws if the socket's path becomes too long.
 */
export function createWorkloadApiRegistration(folder: string): Registration {
  // A name as long as names become in practice.
  socketPath(folder, "gitea-task-1234567890-99-0123abcd");
  return {
    folder,
    socket: (name) => socketPath(folder, name),
    reservedUids: () => Promise.resolve(new Set()),
    add: async ({ name, spiffeId, uid }) => {
      const file = entryFile(folder, name);
      const text = serialiseEntry({ spiffeId: parseSpiffeId(spiffeId), uid });
      // Written again, it would look like a new one to the Workload API.
      if ((await textOf(file)) === text) return;
      await mkdir(path.dirname(file), { recursive: true });
      await writeFileAtomically(file, text, 0o600);
    },
    remove: ({ name }) => removeTree(entryFile(folder, name)),
    sweep: () => Promise.resolve([]),
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

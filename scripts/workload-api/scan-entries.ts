import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import {
  entriesFolder,
  entryName,
  parseEntry,
  type WorkloadEntry,
} from "../../controller/backends/local/workload-entry.ts";
import { type TrustDomain, trustDomainOf } from "../../controller/identity/spiffe-id.ts";
import { describeError } from "../../controller/platform/errors.ts";

export type Scan = {
  readonly entries: ReadonlyMap<string, WorkloadEntry>;
  /** What is wrong, by the file's name. */
  readonly problems: ReadonlyMap<string, string>;
};

/** Reads all entries. One that cannot be used is a problem of its own and hurts no other. */
export async function scanEntries(folder: string, trustDomain: TrustDomain): Promise<Scan> {
  const entries = new Map<string, WorkloadEntry>();
  const problems = new Map<string, string>();
  for (const file of await readdir(entriesFolder(folder))) {
    // Those are being written.
    if (file.startsWith(".")) continue;
    const name = entryName(file);
    if (name === undefined) {
      problems.set(file, "its name is not that of an entry");
      continue;
    }
    try {
      const entry = parseEntry(await readFile(path.join(entriesFolder(folder), file), "utf8"));
      if (trustDomainOf(entry.spiffeId) === trustDomain) entries.set(name, entry);
      else problems.set(file, `${entry.spiffeId} is not of the trust domain ${trustDomain}`);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") problems.set(file, describeError(error));
    }
  }
  return { entries, problems };
}

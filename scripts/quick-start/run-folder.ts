import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** The one folder that everything of a run lies below. */
export type RunFolder = {
  readonly path: string;
  /** Makes a folder in it that others may pass through, and returns its path. */
  below(name: string): Promise<string>;
  /** Removes all of it; whether it is gone: a kept one is not. Removing twice is no error. */
  remove(): Promise<boolean>;
};

/** Makes a new folder for temporary files; with `keep` it is never removed. */
export async function makeRunFolder({ keep = false } = {}): Promise<RunFolder> {
  // A short name: sockets lie deep in it, and their paths are limited to 107 bytes.
  const folder = await mkdtemp(path.join(tmpdir(), "runner-"));
  // Gitea and executors run under other uids and have to get through.
  await chmod(folder, 0o755);
  return {
    path: folder,
    below: async (name) => {
      const place = path.join(folder, name);
      await mkdir(place, { mode: 0o755 });
      return place;
    },
    remove: async () => {
      // A program that was just killed may have a last file on its way.
      if (!keep) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
      return !keep;
    },
  };
}

import { chmod, lstat, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { hasErrorCode, isMissing } from "./error-code.ts";

/** Makes a folder with exactly this mode, whatever the umask; so do the parents get that are not there yet. */
export async function makeFolder(folder: string, mode: number): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  await chmod(folder, mode);
  if (first === undefined) return;
  for (let made = path.resolve(folder); made !== path.resolve(first);) {
    made = path.dirname(made);
    await chmod(made, mode);
  }
}

/**
 * Replaces a file so that readers see the old or the new text, never a part, also after a power cut. The new one
 * is first written beside it under a name with a dot. Two writers of one file at a time are the caller's to prevent.
 */
export async function writeFileAtomically(file: string, text: string, mode: number): Promise<void> {
  const fresh = path.join(path.dirname(file), `.${path.basename(file)}.new`);
  const handle = await open(fresh, "w", mode);
  try {
    await handle.chmod(mode);
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, file);
}

/**
 * Removes a file or folder that nobody works in any more; one that is gone is no error. Folders that their owner
 * cannot write to (Go's module cache) are opened first.
 */
export async function removeTree(target: string): Promise<void> {
  try {
    await rm(target, { recursive: true, force: true });
  } catch (error) {
    if (!hasErrorCode(error, "EACCES", "EPERM", "ENOTEMPTY")) throw error;
    await openFolders(target);
    await rm(target, { recursive: true, force: true });
  }
}

async function openFolders(folder: string): Promise<void> {
  const info = await lstat(folder);
  if (!info.isDirectory()) return;
  await chmod(folder, 0o700);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await openFolders(path.join(folder, entry.name));
  }
}

/** The first folder, from this one upwards, that other users cannot pass through; undefined if all are open. */
export async function closedFolder(folder: string): Promise<string | undefined> {
  for (let current = path.resolve(folder); ; current = path.dirname(current)) {
    if (((await modeOf(current)) & 0o001) === 0) return current;
    if (current === path.dirname(current)) return undefined;
  }
}

/** The mode of a folder; as open if there is none yet. */
async function modeOf(folder: string): Promise<number> {
  try {
    return (await stat(folder)).mode;
  } catch (error) {
    if (isMissing(error)) return 0o777;
    throw error;
  }
}

import { randomUUID } from "node:crypto";
import { chmod, mkdir, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { copyOneFile, copyTree } from "./copy-tree.ts";

/**
 * Puts a program into a folder where other users can run it (a cache below a home folder of mode 0700 cannot be entered by them)
 * and returns its path there. The folder's parents have to be open to others already. One that is there already is replaced, also
 * while it runs.
 */
export async function stageBinary(source: string, folder: string): Promise<string> {
  await openFolder(folder);
  const target = join(folder, basename(source));
  const fresh = `${target}.${randomUUID()}`;
  await copyOneFile(await realpath(source), fresh, "link");
  await rename(fresh, target);
  // A rename onto another link of the same file does nothing.
  await rm(fresh, { force: true });
  return target;
}

/** The same for a folder of files that are only read; nobody may be reading the one that is there. */
export async function stageFolder(source: string, folder: string, name: string): Promise<string> {
  await openFolder(folder);
  const target = join(folder, name);
  await rm(target, { recursive: true, force: true });
  await copyTree(source, target, "link");
  return target;
}

/** Makes the folder if it is not there; everybody may list and enter it from then on. */
export async function openFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const { mode } = await stat(folder);
  if ((mode & 0o055) !== 0o055) await chmod(folder, (mode & 0o7777) | 0o055);
}

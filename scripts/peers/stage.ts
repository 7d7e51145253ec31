import { chmod, mkdir, realpath, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { copyOneFile, copyTree } from "./copy-tree.ts";

/**
 * Puts a program into a folder where other users can run it (a cache below a home folder of mode 0700 cannot be entered by them)
 * and returns its path there. The folder's parents have to be open to others already. What is there already is kept.
 */
export async function stageBinary(source: string, folder: string): Promise<string> {
  await openFolder(folder);
  const target = join(folder, basename(source));
  if (!(await exists(target))) await copyOneFile(await realpath(source), target, "link");
  return target;
}

/** The same for a folder of files that are only read. */
export async function stageFolder(source: string, folder: string, name: string): Promise<string> {
  await openFolder(folder);
  const target = join(folder, name);
  if (!(await exists(target))) await copyTree(source, target, "link");
  return target;
}

async function openFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  await chmod(folder, 0o755);
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch {
    return false;
  }
}

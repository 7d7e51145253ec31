import { chmod, copyFile, link, lstat, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";

/** `link` shares the files' contents where the file system can, and copies elsewhere; take it for files that nobody writes to. */
export type CopyMode = "copy" | "link";

/**
 * Copies a folder of plain files. Everybody can read the copy and its owner can write to it, whatever the modes of the source:
 * Go's module cache is read-only. What is neither a file nor a folder is left out.
 */
export async function copyTree(source: string, target: string, mode: CopyMode): Promise<void> {
  await mkdir(target, { recursive: true, mode: 0o755 });
  for (const entry of await readdir(source, { withFileTypes: true })) {
    const from = join(source, entry.name);
    const to = join(target, entry.name);
    if (entry.isDirectory()) await copyTree(from, to, mode);
    else if (entry.isFile()) await copyOneFile(from, to, mode);
  }
}

/** Copies or links one file; an executable one can be executed by everybody. */
export async function copyOneFile(source: string, target: string, mode: CopyMode): Promise<void> {
  const executable = ((await lstat(source)).mode & 0o100) !== 0;
  if (mode === "link" && (await linked(source, target))) return;
  await copyFile(source, target);
  await chmod(target, executable ? 0o755 : 0o644);
}

async function linked(source: string, target: string): Promise<boolean> {
  try {
    await link(source, target);
    return true;
  } catch (error) {
    // Another file system, or one without links, or a file of somebody else.
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EXDEV" || code === "EPERM" || code === "EMLINK" || code === "ENOTSUP") return false;
    throw error;
  }
}

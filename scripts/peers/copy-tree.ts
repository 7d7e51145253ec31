import { chmod, copyFile, link, lstat, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";

/** `link` shares the files' contents where the file system can, and copies elsewhere; take it for files that nobody writes to. */
export type CopyMode = "copy" | "link";

/**
 * Copies a folder of plain files. Everybody can read the copy and its owner can write to it, whatever the modes of the source:
 * Go's module cache is read-only. What is neither a file nor a folder is left out.
 */
export async function copyTree(source: string, target: string, mode: CopyMode): Promise<void> {
  await mkdir(target, { recursive: true });
  // Not as the mode of mkdir: a umask would take from it.
  await chmod(target, 0o755);
  for (const entry of await readdir(source, { withFileTypes: true })) {
    const from = join(source, entry.name);
    const to = join(target, entry.name);
    if (entry.isDirectory()) await copyTree(from, to, mode);
    else if (entry.isFile()) await copyOneFile(from, to, mode);
  }
}

/** Copies or links one file, which everybody can read then; an executable one can be executed by everybody. */
export async function copyOneFile(source: string, target: string, mode: CopyMode): Promise<void> {
  const { mode: has } = await lstat(source);
  const wanted = (has & 0o100) === 0 ? 0o644 : 0o755;
  const open = (has & wanted & 0o055) === (wanted & 0o055);
  if (mode === "link" && open && (await linked(source, target))) return;
  await copyFile(source, target);
  await chmod(target, wanted);
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

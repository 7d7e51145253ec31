import { chmod, copyFile, constants, link, mkdir, readdir, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { hasErrorCode } from "./error-code.ts";

/**
 * Copies a folder with its files, so that everybody can read the copy, whatever the modes and the umask. Links are
 * followed.
 */
export async function copyFolderForOthers(
  source: string,
  target: string,
  isLeftOut: (name: string) => boolean = () => false,
): Promise<void> {
  await mkdir(target, { recursive: true });
  await chmod(target, 0o755);
  for (const name of await readdir(source)) {
    if (isLeftOut(name)) continue;
    const from = path.join(source, name);
    const to = path.join(target, name);
    const info = await stat(from);
    if (info.isDirectory()) await copyFolderForOthers(from, to, isLeftOut);
    else if (info.isFile()) await copyFileForOthers(from, to);
  }
}

export async function copyFileForOthers(source: string, target: string): Promise<void> {
  const executable = ((await stat(source)).mode & 0o100) !== 0;
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await chmod(target, executable ? 0o755 : 0o644);
}

/** The same for a large program: a hard link where everybody may run the source and its file system has room for one. */
export async function linkProgramForOthers(source: string, target: string): Promise<void> {
  const file = await realpath(source);
  if (((await stat(file)).mode & 0o005) === 0o005) {
    try {
      await link(file, target);
      return;
    } catch (error) {
      // Another file system, or one without links, or a file of somebody else's (fs.protected_hardlinks).
      if (!hasErrorCode(error, "EXDEV", "EPERM", "EMLINK", "ENOTSUP", "EOPNOTSUPP")) throw error;
    }
  }
  await copyFileForOthers(file, target);
  await chmod(target, 0o755);
}

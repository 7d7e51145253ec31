import { readdir, readFile } from "node:fs/promises";
import path from "node:path";

/** The files below a folder that hold this text as it is, by their path in it. */
export async function findInFiles(
  folder: string,
  text: string,
  skip: (file: string) => boolean = () => false,
): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries) {
    const file = path.join(entry.parentPath, entry.name);
    if (!entry.isFile() || skip(path.relative(folder, file))) continue;
    // One may be gone by now.
    const content = await readFile(file).catch(() => Buffer.alloc(0));
    if (content.includes(text)) found.push(path.relative(folder, file));
  }
  return found;
}

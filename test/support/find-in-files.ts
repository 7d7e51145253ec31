import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { constants, inflateRawSync } from "node:zlib";

/** How a gzip member of zlib begins: two bytes that name it, the only method that there is, and no flags. */
const gzipBegins = Buffer.of(0x1f, 0x8b, 8, 0);
const gzipHeaderBytes = 10;

/** The files below a folder that hold this text, as it is, in base64 or in something gzipped, by their path in it. */
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
    if (holds(content, text)) found.push(path.relative(folder, file));
  }
  return found;
}

function holds(content: Buffer, text: string): boolean {
  const forms = [text, ...inBase64(text)];
  return [content, ...unpacked(content)].some((part) => forms.some((form) => part.includes(form)));
}

/** In base64 a text has three forms, going by where it begins; what its neighbours share in is left out. */
function inBase64(text: string): readonly string[] {
  return [0, 1, 2].map((before) =>
    Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
      .toString("base64")
      .slice(before === 0 ? 0 : 4, -4),
  );
}

/** What is gzipped in it, wherever that begins and however it ends. */
function unpacked(content: Buffer): readonly Buffer[] {
  const parts: Buffer[] = [];
  for (let at = content.indexOf(gzipBegins); at !== -1; at = content.indexOf(gzipBegins, at + 1)) {
    try {
      // Not gunzip: that wants another member, or nothing, behind it.
      const packed = content.subarray(at + gzipHeaderBytes);
      parts.push(inflateRawSync(packed, { finishFlush: constants.Z_SYNC_FLUSH }));
    } catch {
      // It only looked like one.
    }
  }
  return parts;
}

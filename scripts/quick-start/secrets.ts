import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";

/** Writes a secret where only this user can read it, and returns the file's path. */
export async function writeSecret(folder: string, name: string, value: string): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, `${value}\n`, { mode: 0o600 });
  return file;
}

/** A line for a new CAPABILITY_KEY_FILE. */
export function newCapabilityKey(): string {
  return randomBytes(48).toString("base64");
}

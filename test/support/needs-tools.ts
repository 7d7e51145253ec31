import { constants } from "node:fs";
import { access } from "node:fs/promises";
import path from "node:path";

/** Where executors look for programs, whatever our own PATH is. */
const systemPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Which of these programs a job on this machine would not find. */
export async function missingTools(tools: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(tools.map(async (tool) => await isThere(tool)));
  return tools.filter((_, index) => found[index] !== true);
}

async function isThere(tool: string): Promise<boolean> {
  for (const folder of systemPath) {
    const there = await access(path.join(folder, tool), constants.X_OK).then(
      () => true,
      () => false,
    );
    if (there) return true;
  }
  return false;
}

/** Skips the test with the reason, or fails it where CI promises everything. */
export function skipFor(context: Mocha.Context, reason: string): never {
  if (process.env["CI"] === "true") throw new Error(`CI has everything that the tests need: ${reason}`);
  console.log(`      skipped: ${reason}`);
  return context.skip();
}

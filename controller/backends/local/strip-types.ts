import { chmod, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { withoutTypes } from "./without-types.ts";

/**
 * A program: makes JavaScript of all TypeScript below the folders that it is given, in its place. Node takes types away at each
 * start, which is nearly half of the time that a bootstrap needs to load; an executor starts once for every job.
 */
for (const folder of process.argv.slice(2)) {
  for (const name of await readdir(folder, { recursive: true })) {
    if (!name.endsWith(".ts")) continue;
    const file = path.join(folder, name);
    const target = file.replace(/\.ts$/, ".js");
    await writeFile(target, withoutTypes(await readFile(file, "utf8")));
    // For whoever runs it, whatever the umask.
    await chmod(target, 0o644);
    await rm(file);
  }
}

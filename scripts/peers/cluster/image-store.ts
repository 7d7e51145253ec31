import { createHash } from "node:crypto";
import { cp, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { cacheFolder } from "../cache-folder.ts";
import { withLock } from "../lock.ts";
import { runCommand } from "../run-command.ts";
import { startComponent } from "./component.ts";
import { containerdRecipe, importImages } from "./containerd.ts";
import { writeContainerdFiles } from "./containerd-settings.ts";
import type { LayerOptions } from "./image/cached-layer.ts";
import { baseImages, type BaseLayers } from "./image/executor-images.ts";
import { createLaunch } from "./launch.ts";
import { createNamespaces } from "./namespaces.ts";
import { debianProgram, systemEnvironment } from "./obstacle.ts";

const lockDeadlineMs = 10 * 60_000;
const copyDeadlineMs = 120_000;

/**
 * A folder in the cache with what containerd makes of the base images: unpacking them takes ten seconds, and each
 * cluster wants them. Made by a containerd of its own the first time.
 */
export async function imageStore(
  layers: BaseLayers,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<string> {
  const { environment, report } = options;
  const programs = {
    containerd: await debianProgram("containerd", environment),
    ctr: await debianProgram("ctr", environment),
  };
  const version = await runCommand(
    { program: programs.containerd, args: ["--version"], environment, deadline: 60_000 },
    signal,
  );
  const key = createHash("sha256").update(`${layers.debian.digest} ${layers.programs.digest} ${version}`);
  const name = `executor-images-${key.digest("hex").slice(0, 12)}`;
  const store = join(cacheFolder(environment), `${name}-${process.platform}-${process.arch}`);
  if (await exists(store)) return store;
  const make = async (): Promise<string> => {
    if (await exists(store)) return store;
    const folder = `${store}.making`;
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder);
    const step = report.begin(name, "unpacking the images of executors");
    try {
      const namespaces = await createNamespaces(
        { folder, hostName: "images", hosts: {}, environment },
        signal,
      );
      const files = await writeContainerdFiles(folder);
      try {
        const launch = createLaunch(namespaces, programs, folder, environment);
        const containerd = await startComponent(containerdRecipe(files, launch), signal);
        const images = { folder: join(folder, "images"), socket: files.socket };
        await importImages(baseImages(layers), images, namespaces, signal);
        await containerd.stop();
      } finally {
        await namespaces.stop();
      }
      await rename(files.root, store);
      step.end("done");
      return store;
    } catch (error) {
      step.end(signal.aborted ? "interrupted" : "failed");
      throw error;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
  const onWait = (owner: number) => report.note(name, `waiting for process ${owner}, which unpacks them`);
  const lock = { clock: systemClock, deadline: lockDeadlineMs, onWait };
  return await withLock(`${store}.lock`, lock, make, signal);
}

/**
 * Copies a store for a containerd that is not started yet. Files are shared where the file system can: nobody writes
 * to a layer, nor to a blob. The databases are not.
 */
export async function copyImageStore(
  store: string,
  target: string,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<void> {
  const shared = (await stat(store)).dev === (await stat(join(target, ".."))).dev;
  const program = await debianProgram("cp", environment);
  const args = [shared ? "-al" : "-a", store, target];
  const command = { program, args, environment: systemEnvironment(environment), deadline: copyDeadlineMs };
  await runCommand(command, signal);
  for (const part of await readdir(store)) {
    for (const file of await readdir(join(store, part))) {
      if (!file.endsWith(".db")) continue;
      await rm(join(target, part, file));
      await cp(join(store, part, file), join(target, part, file));
    }
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}

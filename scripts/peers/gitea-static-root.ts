import { access, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { describeError } from "../../controller/platform/errors.ts";
import { findGo, goEnvironment } from "./build-peer.ts";
import { copyTree } from "./copy-tree.ts";
import { buildWebPage, webManifest } from "./gitea-web-page.ts";
import type { WebPage } from "./peer.ts";
import { giteaModule } from "./peer.ts";
import type { Pin } from "./pin.ts";
import type { Report } from "./report.ts";
import { runCommand } from "./run-command.ts";

export type StaticRoot = { readonly staticRoot: string; readonly webPage: WebPage };

const runtimeFolders = ["templates", "options", "public"] as const;
const downloadDeadlineMs = 10 * 60_000;
const downloadSchema = z.object({ Dir: z.string().min(1) });

/** What is in the peer's folder already, if it is complete with the web page. */
export async function cachedStaticRoot(folder: string): Promise<StaticRoot | undefined> {
  const staticRoot = join(folder, "static-with-page");
  return (await exists(staticRoot)) ? { staticRoot, webPage: { built: true } } : undefined;
}

/** A folder that the user named; the page is there if its list of built files is. */
export async function givenStaticRoot(staticRoot: string): Promise<StaticRoot> {
  if (!(await exists(join(staticRoot, "templates")))) {
    throw new Error(`GITEA_STATIC_ROOT=${staticRoot} has no folder "templates"`);
  }
  const built = await exists(join(staticRoot, webManifest));
  const reason = `GITEA_STATIC_ROOT has no ${webManifest}`;
  return { staticRoot, webPage: built ? { built } : { built, reason } };
}

/**
 * Puts the files that Gitea reads at run time beside its binary, with the built front end where it can be had. Where it cannot, they
 * are kept without it, and the next call tries again. Call it with the lock of the folder held.
 */
export async function prepareStaticRoot(
  pin: Pin,
  folder: string,
  options: { readonly environment: NodeJS.ProcessEnv; readonly report: Report },
  signal: AbortSignal,
): Promise<StaticRoot> {
  const building = join(folder, "static.building");
  const bare = join(folder, "static");
  const withPage = join(folder, "static-with-page");
  await rm(building, { recursive: true, force: true });
  const step = options.report.begin(`gitea ${pin.version}`, "building the web page");
  try {
    const source = await moduleFolder(pin, options.environment, signal);
    if (!(await exists(bare))) await putRuntimeFiles(source, join(building, "bare"), bare);
    const copy = join(building, "module");
    await copyTree(source, copy, "copy");
    const { environment } = options;
    await buildWebPage(copy, join(building, "tools"), { environment, step }, signal);
    if (!(await exists(join(copy, webManifest)))) throw new Error(`the build made no ${webManifest}`);
    await putRuntimeFiles(copy, join(building, "complete"), withPage);
    step.end("done");
    return { staticRoot: withPage, webPage: { built: true } };
  } catch (error) {
    step.end(signal.aborted ? "interrupted" : "failed");
    signal.throwIfAborted();
    if (!(await exists(bare))) throw new Error(`gitea ${pin.version}: its runtime files`, { cause: error });
    return { staticRoot: bare, webPage: { built: false, reason: describeError(error) } };
  } finally {
    await rm(building, { recursive: true, force: true });
  }
}

/** Copies the folders to a temporary place, then renames: the target is complete or not there. */
async function putRuntimeFiles(source: string, temporary: string, target: string): Promise<void> {
  await mkdir(temporary, { recursive: true });
  for (const name of runtimeFolders) await copyTree(join(source, name), join(temporary, name), "copy");
  await rename(temporary, target);
}

/** Gitea's module in Go's module cache, downloaded if it is not there. */
async function moduleFolder(pin: Pin, environment: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> {
  const forGo = goEnvironment(environment);
  const program = await findGo("gitea", pin, forGo, signal);
  const args = ["mod", "download", "-json", giteaModule];
  const command = { program, args, folder: pin.folder, environment: forGo, deadline: downloadDeadlineMs };
  return downloadSchema.parse(JSON.parse(await runCommand(command, signal))).Dir;
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

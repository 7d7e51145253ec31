import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { copyFileForOthers, copyFolderForOthers, linkProgramForOthers } from "./copy-for-others.ts";
import { hasErrorCode, isMissing } from "./error-code.ts";
import { makeFolder } from "./files.ts";
import { type InstalledPackage, packageClosure } from "./package-closure.ts";

/** What the bootstrap imports from npm. */
export const bootstrapPackages: readonly string[] = [
  "@bufbuild/protobuf",
  "@connectrpc/connect",
  "@connectrpc/connect-node",
  "pino",
  "yaml",
  "zod",
];

/** The folders of the repository that are part of the program, with package.json. */
const folders = ["controller", "proto/gen"] as const;

/** It takes a second of two busy cores. */
const stripMs = 120_000;

/** Makes sure of the job's identity before the claim; needs `spire-agent`. */
const jobStarted = "scripts/gitea-job-started";

export type ProgramSource = {
  /** The root of the repository. */
  readonly source: string;
  /** The state folder; staged programs lie in `program` below it, one folder for each content. */
  readonly target: string;
  /** The Node that runs it, such as `process.execPath`. */
  readonly node: string;
  readonly giteaRunnerBinary: string;
  /** For jobs on real SPIRE: it and `gitea-job-started` come to lie on their PATH. */
  readonly spireAgentBinary?: string;
  /** Default: `bootstrapPackages`. */
  readonly packages?: readonly string[];
};

export type StagedProgram = {
  readonly folder: string;
  readonly node: string;
  readonly bootstrap: string;
  readonly giteaRunnerBinary: string;
};

/**
 * Puts the bootstrap with all that it needs where every user can read it, and where it stays as it is while the
 * sources change: a home folder is often closed to others. There it is JavaScript, for a faster start. The same content is
 * staged once; whoever comes second, also at the same time, gets the first one's. Programs of older content stay, executors
 * may still run them.
 */
export async function stageProgram(from: ProgramSource): Promise<StagedProgram> {
  const { source, target, packages = bootstrapPackages } = from;
  const installed = await packageClosure(source, packages);
  const programs = path.join(target, "program");
  await makeFolder(programs, 0o755);
  const folder = path.join(programs, await contentOf(from, installed));
  if (!(await exists(folder))) {
    const fresh = await mkdtemp(path.join(programs, ".staging-"));
    try {
      await copyProgram(from, installed, fresh);
      await putInPlace(fresh, folder);
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  }
  return {
    folder,
    node: path.join(folder, "bin/node"),
    bootstrap: path.join(folder, "controller/bootstrap/main.js"),
    giteaRunnerBinary: path.join(folder, "bin/gitea-runner"),
  };
}

async function copyProgram(
  { source, node, giteaRunnerBinary, spireAgentBinary }: ProgramSource,
  installed: readonly InstalledPackage[],
  target: string,
): Promise<void> {
  await chmod(target, 0o755);
  await makeFolder(path.join(target, "bin"), 0o755);
  await linkProgramForOthers(node, path.join(target, "bin/node"));
  await linkProgramForOthers(giteaRunnerBinary, path.join(target, "bin/gitea-runner"));
  if (spireAgentBinary !== undefined) {
    await linkProgramForOthers(spireAgentBinary, path.join(target, "bin/spire-agent"));
    await copyFileForOthers(path.join(source, jobStarted), path.join(target, "bin/gitea-job-started"));
  }
  await copyFileForOthers(path.join(source, "package.json"), path.join(target, "package.json"));
  for (const folder of folders) await copyInside(source, target, folder);
  await stripTypes(folders.map((folder) => path.join(target, folder)));
  for (const { folder } of installed) await copyInside(source, target, folder, isOfNoUse);
}

/**
 * What lies in a package's own node_modules is in the closure itself, if it is needed. TypeScript, half of all files, is for
 * compilers only: below node_modules Node does not strip types.
 */
function isOfNoUse(name: string): boolean {
  return name === "node_modules" || /\.[cm]?ts$/.test(name);
}

/** In a process of its own, for Node's warning. */
async function stripTypes(inside: readonly string[]): Promise<void> {
  const program = path.join(import.meta.dirname, "strip-types.ts");
  const args = ["--disable-warning=ExperimentalWarning", program, ...inside];
  await promisify(execFile)(process.execPath, args, { timeout: stripMs });
}

/** Copies `source/folder` to `target/folder`, opening the folders between. */
async function copyInside(
  source: string,
  target: string,
  folder: string,
  isLeftOut?: (name: string) => boolean,
): Promise<void> {
  let between = target;
  for (const part of path.dirname(folder).split(path.sep)) {
    between = path.join(between, part);
    await mkdir(between, { recursive: true });
    await chmod(between, 0o755);
  }
  await copyFolderForOthers(path.join(source, folder), path.join(target, folder), isLeftOut);
}

/** Names the content: all of our own files, and what tells the versions of the others. */
async function contentOf(
  { source, node, giteaRunnerBinary, spireAgentBinary }: ProgramSource,
  installed: readonly InstalledPackage[],
): Promise<string> {
  const hash = createHash("sha256");
  const add = (...parts: readonly (string | Uint8Array)[]) => {
    for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
  };
  for (const { folder, id } of installed) add(folder, id);
  for (const program of [
    node,
    giteaRunnerBinary,
    ...(spireAgentBinary === undefined ? [] : [spireAgentBinary]),
  ]) {
    const file = await realpath(program);
    const { size, mtimeMs } = await stat(file);
    add(file, `${size} ${mtimeMs}`);
  }
  if (spireAgentBinary !== undefined) add(await readFile(path.join(source, jobStarted)));
  add(await readFile(path.join(source, "package.json")));
  for (const folder of folders) {
    const entries = await readdir(path.join(source, folder), { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name));
    for (const file of files.toSorted()) add(path.relative(source, file), await readFile(file));
  }
  return hash.digest("hex").slice(0, 16);
}

async function putInPlace(fresh: string, folder: string): Promise<void> {
  try {
    await rename(fresh, folder);
  } catch (error) {
    // Somebody else was faster, with the same content.
    if (!hasErrorCode(error, "EEXIST", "ENOTEMPTY")) throw error;
  }
}

async function exists(folder: string): Promise<boolean> {
  try {
    return (await stat(folder)).isDirectory();
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

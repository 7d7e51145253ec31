import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { linkProgramForOthers } from "../../../../controller/backends/local/copy-for-others.ts";
import { stageProgram } from "../../../../controller/backends/local/stage-program.ts";
import { cacheFolder } from "../../cache-folder.ts";
import type { Peer } from "../../peer.ts";
import { cachedLayer, type LayerOptions } from "./cached-layer.ts";
import { describeLayer, type Layer } from "./layer.ts";
import { writeTar } from "./tar.ts";

/** Where the program lies in the image. */
export const programFolder = "/opt/gitea-dynamic-runner";

export type ProgramPeers = { readonly giteaRunner: Peer; readonly spireAgent: Peer };

const repository = join(import.meta.dirname, "../../../..");

/** Node, as npm has installed it for images: a system's own may need libraries that the image lacks. */
const nodePackage = join(repository, `node_modules/node-linux-${process.arch}`);
const node = join(nodePackage, "bin/node");
const manifest = z.object({ dependencies: z.record(z.string(), z.string()) });

/** gitea-runner's configuration in the image: its cache server would outlive no job, and the Pod has a deadline. */
export const runnerConfiguration = `log: {level: info}
runner: {capacity: 1, timeout: 24h}
cache: {enabled: false}
host: {workdir_parent: /home/runner/work}
`;

/** The layer with the programs that the bootstrap runs: large, and seldom new. It stays in the cache. */
export async function programsLayer(
  peers: ProgramPeers,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  const programs = namedPrograms(peers);
  const key = createHash("sha256");
  // Not Node's file: each npm ci writes it anew.
  key.update(await readFile(join(nodePackage, "package.json")));
  for (const { name, version, binary } of Object.values(peers)) {
    const { size, mtimeMs } = await stat(binary);
    key.update(`${name} ${version} ${size} ${mtimeMs}\n`);
  }
  const make = async (file: string, abort: AbortSignal) => {
    const root = join(dirname(file), "root");
    const bin = join(root, programFolder, "bin");
    await mkdir(bin, { recursive: true });
    for (const [name, program] of Object.entries(programs))
      await linkProgramForOthers(program, join(bin, name));
    await writeTar(file, root, ["."], options.environment, abort);
    await rm(root, { recursive: true });
  };
  const recipe = { name: "executor-programs", key: key.digest("hex").slice(0, 12), make };
  return await cachedLayer(recipe, options, signal);
}

/** The layer with the sources as they are now: small, and often new. It comes to lie in the folder. */
export async function sourcesLayer(
  peers: ProgramPeers,
  folder: string,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  const more = async (root: string) => {
    await mkdir(join(root, "etc/gitea-runner"), { recursive: true });
    await writeFile(join(root, "etc/gitea-runner/config.yaml"), runnerConfiguration);
    return ["etc"];
  };
  return await stagedLayer(peers, { file: join(folder, "executor-sources.tar"), more }, options, signal);
}

/** The same for the controller, which needs all packages that are not for development. */
export async function controllerLayer(
  peers: ProgramPeers,
  folder: string,
  options: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  const { dependencies } = manifest.parse(
    JSON.parse(await readFile(join(repository, "package.json"), "utf8")),
  );
  const wanted = { file: join(folder, "controller-sources.tar"), packages: Object.keys(dependencies) };
  return await stagedLayer(peers, wanted, options, signal);
}

type StagedLayer = {
  readonly file: string;
  /** What the bootstrap needs unless given. */
  readonly packages?: readonly string[];
  /** Lays out more beside the program, and says what. */
  readonly more?: (root: string) => Promise<readonly string[]>;
};

async function stagedLayer(
  peers: ProgramPeers,
  { file, packages, more = () => Promise.resolve([]) }: StagedLayer,
  { environment }: LayerOptions,
  signal: AbortSignal,
): Promise<Layer> {
  // In the cache: links to the programs cost nothing there.
  const scratch = await mkdtemp(join(cacheFolder(environment), "sources-"));
  try {
    const staged = await stageProgram({
      source: repository,
      target: scratch,
      node,
      giteaRunnerBinary: peers.giteaRunner.binary,
      spireAgentBinary: peers.spireAgent.binary,
      ...(packages === undefined ? {} : { packages }),
    });
    const root = dirname(staged.folder);
    const name = basename(staged.folder);
    const others = Object.keys(namedPrograms(peers)).map((program) => `--exclude=${name}/bin/${program}`);
    const rename = `--transform=s,^${name},${programFolder.slice(1)},`;
    await writeTar(file, root, [...others, rename, ...(await more(root)), name], environment, signal);
    return await describeLayer(file);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** As stageProgram names them. */
function namedPrograms({ giteaRunner, spireAgent }: ProgramPeers): Readonly<Record<string, string>> {
  return { node, "gitea-runner": giteaRunner.binary, "spire-agent": spireAgent.binary };
}

import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { cacheFolder } from "./peers/cache-folder.ts";
import { clusterObstacle } from "./peers/cluster/obstacle.ts";
import { prepareCluster } from "./peers/cluster/prepare-cluster.ts";
import { spireCrds } from "./peers/cluster/spire-crds.ts";
import { prepareOpenSandboxLab } from "./peers/opensandbox/prepare-lab.ts";
import { openSandboxObstacle, type OpenSandboxPeer } from "./peers/opensandbox/prepare-server.ts";
import type { GiteaPeer, Peer, PeerName } from "./peers/peer.ts";
import { infraPeers, isPeerName, peerNames, peerRecipes, platformPeers } from "./peers/peer.ts";
import { prepareGitea } from "./peers/prepare-gitea.ts";
import type { PrepareOptions } from "./peers/prepare-peer.ts";
import { preparePeer } from "./peers/prepare-peer.ts";
import { createReport } from "./peers/report.ts";

/** Stands for all that a cluster is made of, images among it. */
const cluster = "kubernetes";
/** Stands for an OpenSandbox server, and an API server with its etcd for it to work on. */
const sandboxes = "opensandbox";
/** Stands for Pulumi's CLI, which is a peer of that name, and the provider that makes objects in a cluster. */
const engine = "pulumi";
const groups: readonly string[] = [cluster, sandboxes];

const variables = peerNames.map(
  (name) => `  ${peerRecipes[name].variable.padEnd(36)}${name} binary to use instead`,
);

const help = `Usage: npm run peers [-- <peer>...]

Prepares the real programs that the demo and the tests run against: ${peerNames.join(", ")}.
Those named; without a name the first five, which are enough for the demo and for npm run test:e2e. "${cluster}" is all
that npm run test:kubernetes needs, "${sandboxes}" what npm run test:opensandbox needs besides the five, "${engine}" what
npm run test:pulumi needs besides a cluster's programs: the CLI and the provider of Kubernetes. Each is looked for in
this order: environment variable, PATH (only the pinned version), cache, build with Go (opensandbox-server: install with
pip). On two cores the first build of the five takes about twenty minutes, that of "${cluster}" forty more, that of
"${engine}" about ten.

Environment:
${variables.join("\n")}
  OPENSANDBOX_SERVER_BINARY           opensandbox-server to use instead
  GITEA_STATIC_ROOT                   folder with Gitea's templates, options and public, for a Gitea from outside the cache
  GITEA_DYNAMIC_RUNNER_CACHE          cache folder; now ${cacheFolder(process.env)}
`;

const parsed = parseArgs({ allowPositionals: true, options: { help: { type: "boolean", short: "h" } } });
const unknown = parsed.positionals.filter((word) => !groups.includes(word) && !isPeerName(word));
if (parsed.values.help === true) {
  process.stdout.write(help);
} else if (unknown.length > 0) {
  process.stderr.write(
    `unknown peer ${unknown.join(", ")}; there are ${[...peerNames, ...groups].join(", ")}\n`,
  );
  process.exitCode = 2;
} else {
  const words = parsed.positionals.length > 0 ? parsed.positionals : platformPeers;
  process.exitCode = await prepareAll(words);
}

/** Prepares one after the other: each build takes all processors by itself. Returns the exit code. */
async function prepareAll(words: readonly string[]): Promise<number> {
  const interrupt = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.once(name, () => interrupt.abort(new Error(`interrupted by ${name}`)));
  }
  const options = { report: createReport() };
  let exitCode = 0;
  for (const word of words) {
    const started = performance.now();
    const seconds = () => `${((performance.now() - started) / 1000).toFixed(1)} s`;
    try {
      const lines = await prepare(word, options, interrupt.signal);
      process.stdout.write(`${lines.join("\n")}, ${seconds()}\n`);
    } catch (error) {
      process.stderr.write(`${word}: ${describeError(error)} (${seconds()})\n`);
      exitCode = 1;
    }
    if (interrupt.signal.aborted) break;
  }
  return exitCode;
}

/** Lines that say what there is now. */
async function prepare(
  word: string,
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (word === engine) return await prepareEngine(options, signal);
  if (isPeerName(word)) return [describe(await preparePeerOf(word, options, signal))];
  const obstacle =
    word === cluster ? await clusterObstacle(process.env) : await openSandboxObstacle(process.env, signal);
  // Who cannot run it has no need of it, as in its tests; a CI promises everything.
  if (obstacle !== undefined && process.env["CI"] !== "true") return [`${word}: left out: ${obstacle}`];
  if (word === sandboxes) return (await prepareSandboxes(options, signal)).map(describe);
  const { peers, images } = await prepareCluster(options, signal);
  return [...Object.values(peers).map(describe), `${word}: images of executors ${images}`];
}

/** With what turns resources of entries into SPIRE's, for the jobs in VMs. */
async function prepareSandboxes(options: PrepareOptions, signal: AbortSignal) {
  const { server, etcd, apiServer } = await prepareOpenSandboxLab(options, signal);
  const entries = await preparePeer("spire-controller-manager", options, signal);
  await spireCrds(process.env, signal);
  return [server, etcd, apiServer, entries];
}

/** One after the other. */
async function prepareEngine(options: PrepareOptions, signal: AbortSignal): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const name of infraPeers) lines.push(describe(await preparePeer(name, options, signal)));
  return lines;
}

async function preparePeerOf(
  name: PeerName,
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<Peer | GiteaPeer> {
  return name === "gitea" ? await prepareGitea(options, signal) : await preparePeer(name, options, signal);
}

function describe(peer: Peer | GiteaPeer | OpenSandboxPeer): string {
  const program = "binary" in peer ? peer.binary : [peer.program, ...peer.args].join(" ");
  const line = `${peer.name} ${peer.version} (${peer.source}) ${program}`;
  if (!("webPage" in peer)) return line;
  return peer.webPage.built ? line : `${line}, no web page: ${peer.webPage.reason}`;
}

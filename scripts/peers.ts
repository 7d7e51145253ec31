import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { cacheFolder } from "./peers/cache-folder.ts";
import { describePeer, peerGroups } from "./peers/groups.ts";
import { isPeerName, peerNames, peerRecipes, platformPeers } from "./peers/peer.ts";
import { prepareGitea } from "./peers/prepare-gitea.ts";
import type { PrepareOptions } from "./peers/prepare-peer.ts";
import { preparePeer } from "./peers/prepare-peer.ts";
import { createReport } from "./peers/report.ts";

const variables = peerNames.map(
  (name) => `  ${peerRecipes[name].variable.padEnd(36)}${name} binary to use instead`,
);

const help = `Usage: npm run peers [-- <peer or group>...]

Prepares the real programs that the demo and the tests run against: ${peerNames.join(", ")}.
Those named; without a name the first five, which are enough for the demo and for npm run test:e2e. Each is looked for
in this order: environment variable, PATH (only the pinned version), cache, build with Go (opensandbox-server: install
with pip; Docker and the registry: unpack Debian's packages). The first build of the five takes about twenty minutes on
two cores.

A group is what one suite needs besides the five:
  kubernetes     npm run test:kubernetes: a cluster of one node; half an hour
  opensandbox    npm run test:opensandbox: an OpenSandbox server, and an API server for it to work on
  pulumi         npm run test:pulumi: Pulumi's CLI and its provider of Kubernetes; ten minutes
  images         npm run test:images: BuildKit, a registry, a Docker engine; a quarter of an hour

Environment:
${variables.join("\n")}
  OPENSANDBOX_SERVER_BINARY           opensandbox-server to use instead
  DOCKER_ENGINE                       folder with dockerd and docker to use instead
  GITEA_STATIC_ROOT                   folder with Gitea's templates, options and public, for a Gitea from outside the cache
  GITEA_DYNAMIC_RUNNER_CACHE          cache folder; now ${cacheFolder(process.env)}
`;

const parsed = parseArgs({ allowPositionals: true, options: { help: { type: "boolean", short: "h" } } });
const unknown = parsed.positionals.filter((word) => peerGroups[word] === undefined && !isPeerName(word));
if (parsed.values.help === true) {
  process.stdout.write(help);
} else if (unknown.length > 0) {
  const known = new Set([...peerNames, ...Object.keys(peerGroups)]);
  process.stderr.write(`unknown peer ${unknown.join(", ")}; there are ${[...known].join(", ")}\n`);
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
  const group = peerGroups[word];
  if (group !== undefined) {
    const obstacle = await group.obstacle(signal);
    // Who cannot run it has no need of it, as in its tests; a CI promises everything.
    if (obstacle !== undefined && process.env["CI"] !== "true") return [`${word}: left out: ${obstacle}`];
    return await group.prepare(options, signal);
  }
  if (!isPeerName(word)) return [];
  const peer =
    word === "gitea" ? await prepareGitea(options, signal) : await preparePeer(word, options, signal);
  return [describePeer(peer)];
}

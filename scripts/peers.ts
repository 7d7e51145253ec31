import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { cacheFolder } from "./peers/cache-folder.ts";
import type { GiteaPeer, Peer, PeerName } from "./peers/peer.ts";
import { isPeerName, peerNames, peerRecipes } from "./peers/peer.ts";
import { prepareGitea } from "./peers/prepare-gitea.ts";
import type { PrepareOptions } from "./peers/prepare-peer.ts";
import { preparePeer } from "./peers/prepare-peer.ts";
import { createReport } from "./peers/report.ts";

const variables = peerNames.map(
  (name) => `  ${peerRecipes[name].variable.padEnd(28)}${name} binary to use instead`,
);

const help = `Usage: npm run peers [-- <peer>...]

Prepares the real programs that the demo and the tests run against: ${peerNames.join(", ")}.
All of them, or those named. Each is looked for in this order: environment variable, PATH (only the pinned
version), cache, build with Go. The first build of all takes about twenty minutes on two cores.

Environment:
${variables.join("\n")}
  GITEA_STATIC_ROOT           folder with Gitea's templates, options and public, for a Gitea from outside the cache
  GITEA_DYNAMIC_RUNNER_CACHE  cache folder; now ${cacheFolder(process.env)}
`;

const parsed = parseArgs({ allowPositionals: true, options: { help: { type: "boolean", short: "h" } } });
const unknown = parsed.positionals.filter((word) => !isPeerName(word));
if (parsed.values.help === true) {
  process.stdout.write(help);
} else if (unknown.length > 0) {
  process.stderr.write(`unknown peer ${unknown.join(", ")}; there are ${peerNames.join(", ")}\n`);
  process.exitCode = 2;
} else {
  const named = parsed.positionals.filter((word) => isPeerName(word));
  process.exitCode = await prepareAll(named.length > 0 ? named : peerNames);
}

/** Prepares one after the other: each build takes all processors by itself. Returns the exit code. */
async function prepareAll(names: readonly PeerName[]): Promise<number> {
  const interrupt = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.once(name, () => interrupt.abort(new Error(`interrupted by ${name}`)));
  }
  const options = { report: createReport() };
  let exitCode = 0;
  for (const name of names) {
    const started = performance.now();
    const seconds = () => `${((performance.now() - started) / 1000).toFixed(1)} s`;
    try {
      const peer = await prepare(name, options, interrupt.signal);
      process.stdout.write(`${describe(peer)}, ${seconds()}\n`);
    } catch (error) {
      process.stderr.write(`${name}: ${describeError(error)} (${seconds()})\n`);
      exitCode = 1;
    }
    if (interrupt.signal.aborted) break;
  }
  return exitCode;
}

async function prepare(
  name: PeerName,
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<Peer | GiteaPeer> {
  return name === "gitea" ? await prepareGitea(options, signal) : await preparePeer(name, options, signal);
}

function describe(peer: Peer | GiteaPeer): string {
  const line = `${peer.name} ${peer.version} (${peer.source}) ${peer.binary}`;
  if (!("webPage" in peer)) return line;
  return peer.webPage.built ? line : `${line}, no web page: ${peer.webPage.reason}`;
}

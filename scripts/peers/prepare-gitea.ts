import { dirname } from "node:path";
import { systemClock } from "../../controller/platform/clock.ts";
import type { StaticRoot } from "./gitea-static-root.ts";
import { cachedStaticRoot, givenStaticRoot, prepareStaticRoot } from "./gitea-static-root.ts";
import { withLock } from "./lock.ts";
import type { GiteaPeer, Peer } from "./peer.ts";
import { readPin } from "./pin.ts";
import type { PrepareOptions } from "./prepare-peer.ts";
import { preparePeer } from "./prepare-peer.ts";
import { silentReport } from "./report.ts";

/** As long as another process may take to download the module and build the page. */
const lockDeadlineMs = 30 * 60_000;

/**
 * Finds or builds Gitea with the files that it reads at run time. A binary from outside the cache is trusted to know its own, unless
 * `GITEA_STATIC_ROOT` names them. A page that cannot be built is no error; a later call tries again.
 */
export async function prepareGitea(options: PrepareOptions, signal: AbortSignal): Promise<GiteaPeer> {
  const peer = await preparePeer("gitea", options, signal);
  const environment = options.environment ?? process.env;
  const given = environment["GITEA_STATIC_ROOT"];
  if (given !== undefined && given !== "") return { ...peer, ...(await givenStaticRoot(given)) };
  if (peer.source === "environment" || peer.source === "path") {
    return { ...peer, staticRoot: undefined, webPage: { built: true } };
  }
  return { ...peer, ...(await staticRootBeside(peer, { ...options, environment }, signal)) };
}

async function staticRootBeside(
  peer: Peer,
  options: PrepareOptions & { readonly environment: NodeJS.ProcessEnv },
  signal: AbortSignal,
): Promise<StaticRoot> {
  const { report = silentReport, environment, clock = systemClock } = options;
  const folder = dirname(peer.binary);
  const cached = await cachedStaticRoot(folder);
  if (cached !== undefined) return cached;
  const pin = await readPin("gitea");
  const file = `${folder}.page.lock`;
  const onWait = (owner: number) =>
    report.note(`gitea ${pin.version}`, `waiting for process ${owner}, which builds its web page (${file})`);
  const prepareUnlessDone = async () =>
    (await cachedStaticRoot(folder)) ??
    (await prepareStaticRoot(pin, folder, { environment, report }, signal));
  return await withLock(file, { clock, deadline: lockDeadlineMs, onWait }, prepareUnlessDone, signal);
}

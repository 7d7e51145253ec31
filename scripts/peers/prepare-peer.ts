import { join } from "node:path";
import type { Clock } from "../../controller/platform/clock.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { buildPeer } from "./build-peer.ts";
import { peerFolder } from "./cache-folder.ts";
import { isProgram, peerFromEnvironment, peerFromPath } from "./find-peer.ts";
import { withLock } from "./lock.ts";
import type { Peer, PeerName } from "./peer.ts";
import { readPin } from "./pin.ts";
import type { Report } from "./report.ts";
import { silentReport } from "./report.ts";

export type PrepareOptions = {
  /** Hears about long work; says nothing unless given. */
  readonly report?: Report;
  /** Instead of this process's own: where to look, and what the tools run with. */
  readonly environment?: NodeJS.ProcessEnv;
  readonly clock?: Clock;
};

/** As long as the longest build, with the time of another that the builder itself may wait for. */
const lockDeadlineMs = 60 * 60_000;

/**
 * Finds or builds one peer: environment variable, PATH, cache, build. Rejects with what to install or to set.
 * Concurrent calls, in this process or in others, share one build.
 */
export async function preparePeer(
  name: PeerName,
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<Peer> {
  const { report = silentReport, environment = process.env, clock = systemClock } = options;
  const found = await findPeer(name, { environment }, signal);
  if (found !== undefined) return found;

  const pin = await readPin(name);
  const folder = peerFolder(environment, name, pin.version);
  const binary = join(folder, name);
  const cached: Peer = { name, version: pin.version, binary, source: "cache" };
  const onWait = (owner: number) =>
    report.note(`${name} ${pin.version}`, `waiting for process ${owner}, which builds it (${folder}.lock)`);
  const buildUnlessBuilt = async (): Promise<Peer> => {
    if (await isProgram(binary)) return cached;
    await buildPeer(name, pin, folder, { environment, report }, signal);
    return { ...cached, source: "built" };
  };
  const lock = { clock, deadline: lockDeadlineMs, onWait };
  return await withLock(`${folder}.lock`, lock, buildUnlessBuilt, signal);
}

/** The same without the build: undefined where it would have to be built. */
export async function findPeer(
  name: PeerName,
  { environment = process.env }: Pick<PrepareOptions, "environment">,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  const { version } = await readPin(name);
  const found =
    (await peerFromEnvironment(name, environment, signal)) ??
    (await peerFromPath(name, version, environment, signal));
  if (found !== undefined) return found;
  const binary = join(peerFolder(environment, name, version), name);
  return (await isProgram(binary)) ? { name, version, binary, source: "cache" } : undefined;
}

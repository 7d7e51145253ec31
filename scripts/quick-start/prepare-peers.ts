import type { GiteaPeer, Peer } from "../peers/peer.ts";
import { prepareGitea } from "../peers/prepare-gitea.ts";
import { preparePeer } from "../peers/prepare-peer.ts";
import type { Report } from "../peers/report.ts";

/** The real programs that it takes beside Gitea. */
export type RunnerPeers = { readonly nats: Peer; readonly giteaRunner: Peer };

/** The real programs that the quick start runs. */
export type Peers = RunnerPeers & { readonly gitea: GiteaPeer };

/** Finds or builds them one after the other, the quick ones first: each build takes all processors by itself. */
export async function preparePeers(report: Report, signal: AbortSignal): Promise<Peers> {
  return { ...(await prepareRunnerPeers(report, signal)), gitea: await prepareGitea({ report }, signal) };
}

/** The same without Gitea, for one that runs already. */
export async function prepareRunnerPeers(report: Report, signal: AbortSignal): Promise<RunnerPeers> {
  return {
    nats: await preparePeer("nats-server", { report }, signal),
    giteaRunner: await preparePeer("gitea-runner", { report }, signal),
  };
}

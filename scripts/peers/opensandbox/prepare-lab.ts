import type { Peer } from "../peer.ts";
import { preparePeer, type PrepareOptions } from "../prepare-peer.ts";
import { type OpenSandboxPeer, prepareOpenSandbox } from "./prepare-server.ts";

/** What an OpenSandbox on a cluster without nodes is made of. */
export type OpenSandboxParts = {
  readonly etcd: Peer;
  readonly apiServer: Peer;
  readonly server: OpenSandboxPeer;
};

/** Finds or makes them, one after the other; the API server takes about a quarter of an hour to compile on two cores. */
export async function prepareOpenSandboxLab(
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<OpenSandboxParts> {
  // First what takes a minute: where it cannot be had nobody waits for a compiler.
  const server = await prepareOpenSandbox(options, signal);
  return {
    server,
    etcd: await preparePeer("etcd", options, signal),
    apiServer: await preparePeer("kube-apiserver", options, signal),
  };
}

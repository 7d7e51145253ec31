import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "./free-port.ts";
import type { Peer } from "./peer.ts";
import { preparePeer } from "./prepare-peer.ts";
import type { Report } from "./report.ts";
import { runCommand } from "./run-command.ts";
import { type ServerProcess, startServer } from "./server-process.ts";
import { showBundle } from "./spire-api/bundle.ts";
import { createJoinToken } from "./spire-api/join-token.ts";
import {
  agentConfiguration,
  serverConfiguration,
  type SpireCluster,
  type SpireIntervals,
} from "./spire-settings.ts";
import { within } from "./within.ts";

export type SpirePeers = { readonly spireServer: Peer; readonly spireAgent: Peer };

export type SpireOptions = SpireIntervals & {
  /** Configuration, logs, data and sockets; workloads of other uids must be able to pass through. */
  readonly folder: string;
  readonly trustDomain: string;
  /** Prepared here unless given. */
  readonly peers?: SpirePeers;
  /** Where agents reach the server; 127.0.0.1 unless given. */
  readonly address?: string;
  /** A cluster whose agents may join, besides the one that is started here. */
  readonly cluster?: SpireCluster;
  /** Who may use the server's API over the network, by their SVIDs; nobody unless given. */
  readonly adminIds?: readonly string[];
};

/** A running SPIRE server with one agent, which tells workloads apart by their uids. */
export type Spire = AsyncDisposable & {
  readonly trustDomain: string;
  readonly peers: SpirePeers;
  /** For agents. */
  readonly serverAddress: string;
  readonly serverPort: number;
  /** The CAs of the trust domain as they were at the start, as PEM. */
  readonly bundleFile: string;
  /** The server's own socket: whoever may use it may give out any identity. */
  readonly serverSocket: string;
  /** The Workload API, for everybody on this machine. */
  readonly agentSocket: string;
  /** The parent of the workloads' entries. */
  readonly parentId: string;
  readonly server: ServerProcess;
  /** The agent that runs now, or ran last. */
  agent(): ServerProcess;
  /** Starts the agent again, after it was stopped or killed. It has kept its own identity on disk. */
  startAgent(signal: AbortSignal): Promise<void>;
  /** Ends both; stopping twice is no error. */
  stop(): Promise<void>;
};

const startDeadlineMs = 90_000;

/**
 * Starts a SPIRE server and an agent on loopback and unix sockets, and waits until both are healthy. Rejects with the
 * end of the log of the one that is not. Aborting the signal gives up the start.
 */
export async function startSpire(options: SpireOptions, signal: AbortSignal): Promise<Spire> {
  const { folder, trustDomain, address = "127.0.0.1", cluster } = options;
  const peers = options.peers ?? (await prepareSpire(undefined, signal));
  await using stack = new AsyncDisposableStack();
  const below = (name: string) => join(folder, name);
  await mkdir(below("agent"), { recursive: true, mode: 0o755 });
  await mkdir(below("server-data"), { recursive: true, mode: 0o700 });
  await mkdir(below("agent-data"), { recursive: true, mode: 0o700 });

  const port = await freePort(address);
  const serverSocket = below("server.sock");
  await writeJson(
    below("server.json"),
    serverConfiguration({
      ...options,
      address,
      port,
      cluster,
      socket: serverSocket,
      dataFolder: below("server-data"),
    }),
  );
  const start = async (name: "server" | "agent", peer: Peer, socket: string, abort: AbortSignal) => {
    const started = await startServer({
      name: peer.name,
      program: peer.binary,
      args: ["run", "-config", below(`${name}.json`)],
      folder,
      environment: process.env,
      logFile: below(`spire-${name}.log`),
    });
    try {
      await healthy(peer, socket, started, abort);
    } catch (error) {
      await started.stop(0);
      throw error;
    }
    return started;
  };
  const server = await start("server", peers.spireServer, serverSocket, signal);
  stack.defer(() => server.stop());

  const asked = { serverBinary: peers.spireServer.binary, serverSocket };
  const parentId = `spiffe://${trustDomain}/host`;
  const bundleFile = below("bundle.pem");
  await writeFile(bundleFile, await showBundle(asked, "pem", signal));
  const agentSocket = below("agent/api.sock");
  await writeJson(
    below("agent.json"),
    agentConfiguration({
      ...options,
      serverAddress: address,
      serverPort: port,
      socket: agentSocket,
      dataFolder: below("agent-data"),
      bundleFile,
      joinToken: await createJoinToken(asked, parentId, signal),
    }),
  );
  const startAgent = (abort: AbortSignal) => start("agent", peers.spireAgent, agentSocket, abort);
  let agent = await startAgent(signal);
  stack.defer(() => agent.stop());

  const all = stack.move();
  const stop = () => all.disposeAsync();
  return {
    trustDomain,
    peers,
    serverAddress: address,
    serverPort: port,
    bundleFile,
    serverSocket,
    agentSocket,
    parentId,
    server,
    agent: () => agent,
    startAgent: async (abort) => {
      await agent.stop();
      agent = await startAgent(abort);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** Finds or builds both, one after the other. */
export async function prepareSpire(report: Report | undefined, signal: AbortSignal): Promise<SpirePeers> {
  const options = report === undefined ? {} : { report };
  return {
    spireServer: await preparePeer("spire-server", options, signal),
    spireAgent: await preparePeer("spire-agent", options, signal),
  };
}

/** Both hold secrets: the agent's its token, which counts once. */
async function writeJson(file: string, value: unknown): Promise<void> {
  await writeFile(file, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
}

/** Asks until it says that it is healthy. */
async function healthy(
  peer: Peer,
  socket: string,
  server: ServerProcess,
  signal: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const ask = async (abort: AbortSignal) => {
    const command = {
      program: peer.binary,
      args: ["healthcheck", "-socketPath", socket],
      environment: process.env,
      deadline: startDeadlineMs,
    };
    for (;;) {
      try {
        await runCommand(command, abort);
        return;
      } catch {
        abort.throwIfAborted();
      }
    }
  };
  const wait = (inner: AbortSignal) => {
    const either = AbortSignal.any([inner, over.signal]);
    return Promise.race([ask(either), server.failure(either)]);
  };
  try {
    await within(startDeadlineMs, `the start of ${peer.name}`, wait, signal);
  } finally {
    over.abort();
  }
}

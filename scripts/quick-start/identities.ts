import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { LocalIdentity } from "../../controller/backends/local/local-identity.ts";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { entryFile, serialiseEntry, socketPath } from "../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId, type SpiffeId } from "../../controller/identity/spiffe-id.ts";
import { signalGroup } from "../peers/process-group.ts";
import { type Spire, type SpireOptions, startSpire } from "../peers/start-spire.ts";
import { startWorkloadApi, type WorkloadApiOptions } from "../workload-api/start.ts";
import type { Part } from "./parts.ts";
import type { RunFolder } from "./run-folder.ts";

/** Where the controller and its executors get their identities. */
export type Identities = {
  readonly local: LocalIdentity;
  /** The controller's variables. */
  readonly environment: Readonly<Record<string, string>>;
  readonly part: Part;
  /** For people. */
  readonly what: string;
  /** Only where it is real SPIRE. */
  readonly spire?: Spire;
};

export type SpireChoice = Pick<SpireOptions, "peers" | "cacheReloadInterval" | "syncInterval"> & {
  /** Of the facade's and the executors' X.509-SVIDs; ten minutes unless given. */
  readonly svidTtlSeconds?: number;
};

export const trustDomain = "quick-start.example";
export const facadeId = parseSpiffeId(`spiffe://${trustDomain}/controller/facade`);

/** How the development Workload API differs from its usual way. */
export type DevelopmentChoice = Pick<WorkloadApiOptions, "clockAheadSeconds">;

/** A development Workload API, with an entry for the facade. */
export async function startDevelopmentIdentities(
  choice: DevelopmentChoice,
  runFolder: RunFolder,
  signal: AbortSignal,
): Promise<Identities> {
  const folder = await runFolder.below("spiffe");
  const workloadApi = await startWorkloadApi({ ...choice, folder, trustDomain, signal });
  const entry = { spiffeId: facadeId, uid: null };
  await mkdir(path.dirname(entryFile(folder, "controller")), { recursive: true });
  await writeFile(entryFile(folder, "controller"), serialiseEntry(entry));
  return {
    local: { kind: "workload-api", folder },
    environment: {
      SPIFFE_ENDPOINT_SOCKET: `unix://${socketPath(folder, "controller")}`,
      LOCAL_WORKLOAD_API_FOLDER: folder,
    },
    part: {
      name: "the development Workload API",
      logFile: path.join(folder, "workload-api.log"),
      exited: workloadApi.exited,
      stop: () => workloadApi.stop(),
      kill: () => {
        signalGroup(workloadApi.pid, "SIGKILL");
      },
    },
    what: `development Workload API of ${trustDomain} runs`,
  };
}

/** A SPIRE server with its agent, with an entry for the facade: whatever runs as our own uid is the controller. */
export async function startSpireIdentities(
  { svidTtlSeconds = 600, ...choice }: SpireChoice,
  runFolder: RunFolder,
  signal: AbortSignal,
): Promise<Identities> {
  const folder = await runFolder.below("spire");
  const spire = await startSpire({ ...choice, folder, trustDomain }, signal);
  const { serverSocket, agentSocket, parentId } = spire;
  const serverBinary = spire.peers.spireServer.binary;
  try {
    await registerFacade({ serverBinary, serverSocket }, parentId, facadeId, svidTtlSeconds, signal);
  } catch (error) {
    await spire.stop();
    throw error;
  }
  return {
    local: { kind: "spire", serverBinary, serverSocket, parentId, agentSocket, svidTtlSeconds },
    environment: {
      SPIFFE_ENDPOINT_SOCKET: `unix://${agentSocket}`,
      LOCAL_IDENTITY: "spire",
      LOCAL_SPIRE_SERVER_BINARY: serverBinary,
      LOCAL_SPIRE_SERVER_SOCKET: serverSocket,
      LOCAL_SPIRE_PARENT_ID: parentId,
      LOCAL_SPIRE_AGENT_SOCKET: agentSocket,
      LOCAL_SPIRE_AGENT_BINARY: spire.peers.spireAgent.binary,
      LOCAL_SPIRE_SVID_TTL_SECONDS: String(svidTtlSeconds),
    },
    part: {
      name: "SPIRE",
      logFile: path.join(folder, "spire-server.log"),
      exited: spire.server.exited,
      stop: () => spire.stop(),
      kill: () => {
        spire.server.signal("SIGKILL");
        spire.agent().signal("SIGKILL");
      },
    },
    what: `SPIRE ${spire.peers.spireServer.version} of ${trustDomain} runs`,
    spire,
  };
}

async function registerFacade(
  server: Parameters<typeof createSpireEntries>[0],
  parentId: string,
  spiffeId: SpiffeId,
  x509TtlSeconds: number,
  signal: AbortSignal,
): Promise<void> {
  const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
  const entry = { id: "facade", spiffeId, parentId, selectors, x509TtlSeconds };
  await createSpireEntries(server).create(entry, signal);
}

import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import { entryFile, serialiseEntry, socketPath } from "../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { freePort } from "../../scripts/peers/free-port.ts";
import { startWorkloadApi, type RunningWorkloadApi } from "../../scripts/workload-api/start.ts";
import { startFakeGitea, type FakeGitea } from "../fakes/fake-gitea.ts";
import { type NatsUnderTest, useNats } from "./nats.ts";

export const peersTrustDomain = "process.example";
const facadeId = `spiffe://${peersTrustDomain}/controller/facade`;
const capabilityKey = "Kq3vT8xZ1mB6nW4yP9sD2fG7hJ5kL0aQ";

/** All that a controller needs around it: a real nats-server, the development Workload API, a played Gitea. */
export type ControllerPeers = {
  readonly nats: NatsUnderTest;
  readonly gitea: FakeGitea;
  /** Where the Workload API's sockets are. */
  readonly workloadFolder: string;
  /** Gives the facade's identity to whoever connects to the socket of that name; "controller" is there. */
  register(name: string): Promise<void>;
  /** A file with this text; resolves to its path. */
  secretFile(name: string, text: string): Promise<string>;
  /** What every controller needs, with a runner, streams and ports of its own. */
  environment(): Promise<Readonly<Record<string, string>> & { readonly GITEA_RUNNER_UUID: string }>;
  /** A folder for what the quick start keeps. */
  stateFolder(): Promise<string>;
  /** What must stand in no log. */
  secrets(): readonly string[];
};

/** Registers hooks that run the peers for the surrounding file or `describe`. */
export function useControllerPeers(): ControllerPeers {
  const nats = useNats();
  let folder = "";
  let workloadFolder = "";
  let workloadApi: RunningWorkloadApi | undefined;
  let gitea: FakeGitea | undefined;
  let runs = 0;

  const playedGitea = () => {
    if (gitea === undefined) throw new Error("the Gitea of this test is not started yet");
    return gitea;
  };
  const register = async (name: string) => {
    const file = entryFile(workloadFolder, name);
    const draft = path.join(path.dirname(file), `.${name}`);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(draft, serialiseEntry({ spiffeId: parseSpiffeId(facadeId), uid: null }));
    await rename(draft, file);
  };
  const secretFile = async (name: string, text: string) => {
    await writeFile(path.join(folder, name), text, { mode: 0o600 });
    return path.join(folder, name);
  };

  before("start the controller's peers", async () => {
    folder = await mkdtemp(path.join(tmpdir(), "process-"));
    await chmod(folder, 0o755);
    gitea = await startFakeGitea();
    workloadFolder = path.join(folder, "spiffe");
    await mkdir(workloadFolder);
    workloadApi = await startWorkloadApi({
      folder: workloadFolder,
      trustDomain: peersTrustDomain,
      signal: AbortSignal.timeout(50_000),
    });
    await register("controller");
  });
  after("stop the controller's peers", async () => {
    await workloadApi?.stop();
    await gitea?.[Symbol.asyncDispose]();
    if (folder !== "") await rm(folder, { recursive: true, force: true });
  });

  return {
    nats,
    get gitea() {
      return playedGitea();
    },
    get workloadFolder() {
      return workloadFolder;
    },
    register,
    secretFile,
    environment: async () => {
      const run = ++runs;
      const runner = playedGitea().addRunner();
      const port = await freePort();
      return {
        GITEA_URL: playedGitea().url,
        GITEA_RUNNER_UUID: runner.uuid,
        GITEA_RUNNER_TOKEN_FILE: await secretFile(`token-${run}`, runner.token),
        NATS_URL: nats.url,
        NATS_USER: nats.user,
        NATS_PASSWORD_FILE: nats.passwordFile,
        NATS_STREAM: `CI_RUNNER_${run}`,
        NATS_SUBJECT_BASE: `ci-${run}.assignment`,
        TRUST_DOMAIN: peersTrustDomain,
        SPIFFE_ENDPOINT_SOCKET: `unix://${socketPath(workloadFolder, "controller")}`,
        RUNNER_FACADE_LISTEN: `127.0.0.1:${port}`,
        RUNNER_FACADE_URL: `https://127.0.0.1:${port}`,
        RUNNER_FACADE_SPIFFE_ID: facadeId,
        CAPABILITY_KEY_FILE: await secretFile("keys", `${capabilityKey}\n`),
        COMPONENTS: "scheduler,pod-worker",
        HEALTH_LISTEN: "127.0.0.1:0",
      };
    },
    stateFolder: async () => {
      const state = path.join(folder, `state-${runs}`);
      await mkdir(state);
      // What all executors run is the same for all controllers, and has a thousand files: the first one puts it there.
      const program = path.join(folder, "program");
      await mkdir(program, { recursive: true });
      await symlink(program, path.join(state, "program"));
      return state;
    },
    secrets: () => [...playedGitea().runners.map(({ token }) => token), nats.password, capabilityKey],
  };
}

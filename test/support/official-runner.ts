import { chmod, chown, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { stringify } from "yaml";
import { registerRunner } from "../../scripts/peers/gitea-api/register-runner.ts";
import type { Peer } from "../../scripts/peers/peer.ts";
import { type ServerProcess, startServer } from "../../scripts/peers/server-process.ts";
import { stageBinary } from "../../scripts/peers/stage.ts";
import type { Gitea } from "../../scripts/peers/start-gitea.ts";

export type OfficialRunnerOptions = {
  readonly gitea: Gitea;
  readonly peer: Peer;
  /** Is made; everything of the runner is in it. Its parents are open to others already. */
  readonly folder: string;
  /** The bare name by which jobs ask for it. */
  readonly label: string;
  readonly capacity: number;
  /** `1s` unless given; its own default is longer. */
  readonly fetchInterval?: string;
};

/** No other part of the tests or of the quick start uses it, and no executor either. */
const ownUid = 60_590;

/**
 * The official gitea-runner as its own documentation runs it: registered in Gitea by itself, a daemon that takes
 * job after job on the host. Configured as our executors configure theirs, with a uid of its own if we are root.
 */
export async function startOfficialRunner(
  options: OfficialRunnerOptions,
  signal: AbortSignal,
): Promise<ServerProcess> {
  const { gitea, peer, folder, label, capacity, fetchInterval = "1s" } = options;
  const registered = await registerRunner(gitea, { name: label, labels: [label] }, signal);
  const home = path.join(folder, "home");
  const programs = path.join(folder, "bin");
  await mkdir(folder, { mode: 0o755 });
  await chmod(folder, 0o755);
  const program = await stageBinary(peer.binary, programs);
  // JavaScript actions find the same node as in our executors.
  await stageBinary(process.execPath, programs);
  const file = {
    ...registered,
    id: Number(registered.id),
    name: label,
    address: gitea.url,
    labels: [`${label}:host`],
  };
  const config = {
    log: { level: "info" },
    runner: { capacity, timeout: "4h", fetch_interval: fetchInterval },
    cache: { enabled: false },
    host: { workdir_parent: path.join(home, "work") },
  };
  const temporary = path.join(home, "tmp");
  await mkdir(temporary, { recursive: true });
  await writeFile(path.join(home, ".runner"), JSON.stringify(file), { mode: 0o600 });
  await writeFile(path.join(home, "config.yaml"), stringify(config));
  const user = process.geteuid?.() === 0 ? { uid: ownUid, gid: ownUid } : {};
  if (user.uid !== undefined)
    for (const name of [home, temporary, path.join(home, ".runner")]) await chown(name, user.uid, user.uid);
  return await startServer({
    name: "the official gitea-runner",
    program,
    args: ["daemon", "--config", path.join(home, "config.yaml")],
    folder: home,
    environment: {
      PATH: `${programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
      HOME: home,
      TMPDIR: temporary,
      USER: "executor",
      LOGNAME: "executor",
      LANG: "C.UTF-8",
    },
    logFile: path.join(folder, "runner.log"),
    ...user,
  });
}

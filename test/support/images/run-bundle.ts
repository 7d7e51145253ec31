import { randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "../../../scripts/peers/run-command.ts";
import { debianProgram, systemEnvironment } from "../../../scripts/peers/cluster/obstacle.ts";
import { type ServerProcess, startServer } from "../../../scripts/peers/server-process.ts";
import type { ImageConfig } from "./pushed-image.ts";

export type ContainerOptions = {
  readonly config: ImageConfig;
  /** Its root file system, which stays as it is. */
  readonly root: string;
  /** For the bundle, logs and runc's state; it has to be there. */
  readonly folder: string;
  /** Besides the image's own. */
  readonly environment: Readonly<Record<string, string>>;
  /** Unless given the image's own, by number. */
  readonly user?: number;
  /** Folders of ours that it can read, by where it finds them. */
  readonly folders?: Readonly<Record<string, string>>;
};

/** A container with a read-only root, without capabilities, in this machine's network. */
export type RunningContainer = AsyncDisposable & {
  readonly process: ServerProcess;
  /** To the container's first process. */
  kill(signal: "TERM" | "KILL"): Promise<void>;
};

const deadline = 30_000;
const { signal } = new AbortController();

/** Starts what the image starts, as the controller's Pod does (`infra/controller-pod.ts`). */
export async function startContainer(options: ContainerOptions): Promise<RunningContainer> {
  const { folder } = options;
  const environment = systemEnvironment(process.env);
  const runc = await debianProgram("runc", environment);
  const id = `images-${randomUUID()}`;
  const bundle = path.join(folder, id);
  await mkdir(bundle);
  await writeFile(path.join(bundle, "config.json"), JSON.stringify(specification(options, id)));
  const state = ["--root", path.join(folder, "runc")];
  const server = await startServer({
    name: "the container",
    program: runc,
    args: [...state, "run", "--bundle", bundle, id],
    folder: bundle,
    environment,
    logFile: path.join(bundle, "log"),
  });
  const command = async (...args: readonly string[]) =>
    await runCommand({ program: runc, args: [...state, ...args], environment, deadline }, signal);
  return {
    process: server,
    kill: async (name) => void (await command("kill", id, name)),
    [Symbol.asyncDispose]: async () => {
      await command("delete", "--force", id).catch(() => undefined);
      await server.stop(0);
    },
  };
}

function specification({ config, root, environment, user, folders = {} }: ContainerOptions, id: string) {
  const [uid = 0, gid = uid] = user === undefined ? config.User.split(":").map(Number) : [user, user];
  const none: readonly string[] = [];
  const mount = (destination: string, type: string, ...more: readonly string[]) => ({
    destination,
    type,
    source: type,
    options: ["nosuid", ...more],
  });
  const read = Object.entries(folders).map(([destination, source]) => ({
    destination,
    type: "bind",
    source,
    options: ["rbind", "ro"],
  }));
  const own = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  return {
    ociVersion: "1.0.2",
    process: {
      args: config.Entrypoint,
      cwd: config.WorkingDir,
      env: [...config.Env, ...own],
      user: { uid, gid },
      noNewPrivileges: true,
      capabilities: { bounding: none, effective: none, permitted: none, inheritable: none, ambient: none },
    },
    root: { path: root, readonly: true },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      mount("/dev", "tmpfs", "mode=755"),
      mount("/tmp", "tmpfs", "mode=1777"),
      ...read,
    ],
    linux: {
      cgroupsPath: `/${id}`,
      namespaces: ["pid", "ipc", "uts", "mount"].map((type) => ({ type })),
    },
  };
}

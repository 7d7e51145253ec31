import { mkdir, readdir, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cgroupMounts } from "../cluster/cgroup-mounts.ts";
import { debianProgram, systemEnvironment } from "../cluster/obstacle.ts";
import { runCommand } from "../run-command.ts";
import { startServer } from "../server-process.ts";
import type { ImageParts } from "./prepare-images.ts";

export type BuildkitOptions = {
  readonly parts: ImageParts;
  /** Keeps all that it builds, and `buildx`'s settings; not on an overlay. */
  readonly folder: string;
  /** Hosts that are asked without TLS. */
  readonly registries: readonly string[];
  /** A registry that only this BuildKit knows by its name, and believes with certificates of this authority. */
  readonly named?: NamedRegistry;
};

export type NamedRegistry = {
  readonly name: string;
  /** File with its certificate. */
  readonly authority: string;
  /** Stands for `/etc/hosts`; read again when it changes. */
  readonly hosts: string;
};

/** A BuildKit of its own, and the `buildx` that uses it. */
export type Buildkit = AsyncDisposable & {
  /** What `buildx` has to be run with to use it. */
  readonly environment: NodeJS.ProcessEnv;
  readonly buildx: string;
  /** For other builders' settings. */
  readonly address: string;
};

/** The mount ends with its namespace. */
const withHosts = 'mount --bind "$0" /etc/hosts && exec "$@"';
const startDeadlineMs = 60_000;
const commandDeadlineMs = 60_000;

/**
 * Starts a BuildKit as root, with its own state, and mount and PID namespaces of its own: what it has mounted ends with
 * it, and so do builds under way. Steps of builds share this machine's network.
 */
export async function startBuildkit(options: BuildkitOptions, signal: AbortSignal): Promise<Buildkit> {
  const { parts, folder, registries, named } = options;
  const { environment, peers } = parts;
  const at = (name: string) => join(folder, name);
  await mkdir(at("config"), { recursive: true });
  const address = `unix://${at("buildkitd.sock")}`;
  const cgroup = `gdr-images-${process.pid}-${Date.now()}`;
  const lines = [
    `root = ${JSON.stringify(at("state"))}`,
    "[grpc]",
    `address = [${JSON.stringify(address)}]`,
    "[worker.oci]",
    "enabled = true",
    'snapshotter = "overlayfs"',
    'networkMode = "host"',
    `defaultCgroupParent = ${JSON.stringify(cgroup)}`,
    "[worker.containerd]",
    "enabled = false",
    ...registries.flatMap((host) => [`[registry.${JSON.stringify(host)}]`, "http = true"]),
    ...(named === undefined
      ? []
      : [`[registry.${JSON.stringify(named.name)}]`, `ca = [${JSON.stringify(named.authority)}]`]),
  ];
  await writeFile(at("buildkitd.toml"), `${lines.join("\n")}\n`);
  const own = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"];
  const server = await startServer({
    name: "buildkitd",
    program: await debianProgram("unshare", environment),
    args: [
      ...own,
      ...(named === undefined ? [] : ["/bin/sh", "-c", withHosts, named.hosts]),
      peers.buildkitd.binary,
      "--config",
      at("buildkitd.toml"),
    ],
    folder,
    environment: systemEnvironment(environment),
    logFile: at("buildkitd.log"),
  });
  const stop = async () => {
    await server.stop();
    await removeCgroups(cgroup);
    await rm(at("state"), { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await server.line(/running server on/, startDeadlineMs, signal);
    const inside = {
      ...environment,
      DOCKER_CONFIG: at("config"),
      BUILDX_CONFIG: at("buildx"),
      BUILDX_BUILDER: "images",
    };
    const buildx = peers.buildx.binary;
    const create = ["create", "--name", "images", "--driver", "remote", address];
    await runCommand(
      { program: buildx, args: create, environment: inside, deadline: commandDeadlineMs },
      signal,
    );
    return { environment: inside, buildx, address, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Containers of builds leave the groups above their own. */
async function removeCgroups(name: string): Promise<void> {
  const { v1, v2 } = await cgroupMounts();
  for (const hierarchy of new Set([...v1.values(), ...v2])) await removeFolders(join(hierarchy, name));
}

/** In a cgroup only folders can be removed, from the inside out. */
async function removeFolders(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeFolders(join(folder, entry.name));
  await rmdir(folder).catch(() => undefined);
}

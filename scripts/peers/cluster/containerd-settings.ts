import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sandboxImage } from "./image/references.ts";

export type ContainerdFiles = {
  readonly configuration: string;
  /** Images and containers; not there before its first start. */
  readonly root: string;
  readonly socket: string;
  /** Where it looks for the configuration of the Pods' network. */
  readonly network: string;
};

const unused = [
  "snapshotter.v1.btrfs",
  "snapshotter.v1.zfs",
  "snapshotter.v1.aufs",
  "snapshotter.v1.devmapper",
  "internal.v1.opt",
  "internal.v1.tracing",
].map((name) => `io.containerd.${name}`);

/** Lays out what containerd reads in the folder. */
export async function writeContainerdFiles(folder: string): Promise<ContainerdFiles> {
  const files: ContainerdFiles = {
    configuration: join(folder, "containerd.toml"),
    root: join(folder, "containerd"),
    socket: join(folder, "containerd.sock"),
    network: join(folder, "cni"),
  };
  await mkdir(files.network, { recursive: true });
  await writeFile(files.configuration, configuration(files, folder));
  return files;
}

/**
 * https://github.com/containerd/containerd/blob/release/1.6/docs/cri/config.md. Without `restrict_oom_score_adj`
 * no container starts where root may not lower that number.
 */
function configuration(files: ContainerdFiles, folder: string): string {
  const text = JSON.stringify;
  return `version = 2
root = ${text(files.root)}
state = ${text(join(folder, "containerd-state"))}
disabled_plugins = ${text(unused)}
[grpc]
  address = ${text(files.socket)}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = ${text(sandboxImage)}
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = ${text(files.network)}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = ${text(join(folder, "registries"))}
`;
}

import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { runCommand } from "../../run-command.ts";
import { debianProgram, systemEnvironment } from "../obstacle.ts";
import { cachedLayer, type LayerOptions } from "./cached-layer.ts";
import type { Layer } from "./layer.ts";

/** The image's user, of which the agent knows executors. */
export const runnerUid = 2000;

const suite = "bookworm";
const packages = ["bash", "ca-certificates", "curl", "git", "procps", "sudo"];
const unread = ["man", "doc", "info", "locale"].map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`);
/** The user, who gets root by sudo. No Docker: a job that needs it cannot run in this image. */
const afterwards = [
  `chroot "$1" useradd --uid ${runnerUid} --user-group --create-home --shell /bin/bash runner`,
  `echo 'runner ALL=(ALL) NOPASSWD: ALL' > "$1/etc/sudoers.d/runner" && chmod 440 "$1/etc/sudoers.d/runner"`,
  `rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin`,
];
const recipe = [
  "--variant=minbase",
  `--include=${packages.join(",")}`,
  ...unread,
  ...afterwards.map((command) => `--customize-hook=${command}`),
];
const deadline = 20 * 60_000;

/** A small Debian, from its archive: two minutes, once. */
export async function debianLayer(options: LayerOptions, signal: AbortSignal): Promise<Layer> {
  const key = createHash("sha256")
    .update(JSON.stringify([suite, recipe]))
    .digest("hex")
    .slice(0, 12);
  const environment = systemEnvironment(options.environment);
  const make = async (file: string, abort: AbortSignal) => {
    const program = await debianProgram("mmdebstrap", environment);
    const args = ["--quiet", ...recipe, suite, file];
    // Where it works; others' temporary folders may be too small.
    const inside = { ...environment, TMPDIR: dirname(file) };
    await runCommand({ program, args, environment: inside, deadline, folder: join(file, "..") }, abort);
  };
  return await cachedLayer({ name: "executor-debian", key, make }, options, signal);
}

import type { LayerOptions } from "./cached-layer.ts";
import { debianFromArchive, type DebianRecipe } from "./debian-archive.ts";
import type { Layer } from "./layer.ts";

/** The image's user, of which the agent knows executors. */
export const runnerUid = 2000;

const recipe: DebianRecipe = {
  name: "executor-debian",
  suite: "bookworm",
  packages: ["bash", "ca-certificates", "curl", "git", "procps", "sudo"],
  // The user, who gets root by sudo. No Docker: a job that needs it cannot run in this image.
  afterwards: [
    `chroot "$1" useradd --uid ${runnerUid} --user-group --create-home --shell /bin/bash runner`,
    `echo 'runner ALL=(ALL) NOPASSWD: ALL' > "$1/etc/sudoers.d/runner" && chmod 440 "$1/etc/sudoers.d/runner"`,
    `rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin`,
  ],
};

/** What executors of a cluster in tests run on. */
export async function debianLayer(options: LayerOptions, signal: AbortSignal): Promise<Layer> {
  return await debianFromArchive(recipe, options, signal);
}

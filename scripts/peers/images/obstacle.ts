import { onPath } from "../find-peer.ts";
import { systemEnvironment } from "../cluster/obstacle.ts";

/** Debian's packages that images are made with; `.ci/run` installs them. */
export const imagePackages: Readonly<Record<string, readonly string[]>> = {
  runc: ["runc"],
  "util-linux": ["unshare"],
  mmdebstrap: ["mmdebstrap"],
  dpkg: ["dpkg"],
  apt: ["apt-get"],
  tar: ["tar"],
};

/**
 * Why no images can be built on this machine, with what to do about it; undefined where they can. BuildKit mounts what it
 * builds in, so it is for root only; syft's package holds a program for one kind of machine.
 */
export async function imagesObstacle(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  if (process.platform !== "linux" || process.arch !== "x64")
    return `images are built on Linux on x64 only, this is ${process.platform} on ${process.arch}`;
  if (process.geteuid?.() !== 0) return "images are built by root, for the mounts";
  const packages: string[] = [];
  for (const [name, programs] of Object.entries(imagePackages)) {
    const found = await Promise.all(
      programs.map((program) => onPath(program, systemEnvironment(environment))),
    );
    if (found.includes(undefined)) packages.push(name);
  }
  if (packages.length === 0) return undefined;
  return `images need programs of Debian: apt-get install --no-install-recommends ${packages.join(" ")}`;
}

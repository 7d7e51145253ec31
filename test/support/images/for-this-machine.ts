import { copyFile, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

export type MachineOptions = {
  /** What this machine has for the images that our Dockerfiles begin with: references with digest, by the stages' names. */
  readonly bases: Readonly<Record<string, string>>;
  /** File with the authorities that packages of npm come through, where there are private ones. */
  readonly authorities?: string;
};

const authoritiesFile = "authorities.pem";
const publishing = [".gitea/workflows/publish-images.yml", ".gitea/workflows/publish-runner-image.yml"];
const dockerfiles: Readonly<Record<string, readonly string[]>> = {
  "controller/Dockerfile": ["debian", "node"],
  "runner-image/Dockerfile": ["debian", "node", "gitea-runner", "spire-agent", "buildx"],
};

/**
 * All that has to be different in the repository's files for its publish workflows to run on this machine: there are no VMs, the
 * images that ours are built from are others, and npm may have to trust a proxy.
 */
export async function changeForThisMachine(
  tree: string,
  { bases, authorities }: MachineOptions,
): Promise<void> {
  const changes = async (file: string, pairs: readonly (readonly [string | RegExp, string])[]) => {
    let text = await readFile(path.join(tree, file), "utf8");
    for (const [from, to] of pairs) {
      const parts = text.split(from);
      if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times ${String(from)}`);
      text = parts.join(to);
    }
    await writeFile(path.join(tree, file), text);
  };
  const secret = ` -- --secret=id=extra_ca,src=${authoritiesFile}\n`;
  for (const file of publishing)
    await changes(file, [
      ["runs-on: [self-hosted, vm]", "runs-on: [self-hosted, pod]"],
      [
        "run: scripts/publish-image\n",
        `run: scripts/publish-image${authorities === undefined ? "\n" : secret}`,
      ],
    ]);
  for (const [file, stages] of Object.entries(dockerfiles))
    await changes(
      file,
      stages.map((stage) => {
        const argument = `ARG ${stage.toUpperCase().replace("-", "_")}_IMAGE=`;
        return [new RegExp(`^${argument}\\S+$`, "m"), `${argument}${bases[stage] ?? ""}`];
      }),
    );
  if (authorities !== undefined) await copyFile(authorities, path.join(tree, authoritiesFile));
}

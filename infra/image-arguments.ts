import type { Settings } from "./settings.ts";

type Base = keyof Settings["images"]["bases"];

/** The argument of our Dockerfiles that names each image to begin with. */
export const baseArguments = {
  debian: "DEBIAN_IMAGE",
  node: "NODE_IMAGE",
  giteaRunner: "GITEA_RUNNER_IMAGE",
  spireAgent: "SPIRE_AGENT_IMAGE",
  buildx: "BUILDX_IMAGE",
} as const satisfies Readonly<Record<Base, string>>;

/** What the Dockerfile of each image begins with. */
export const basesOf = {
  controller: ["debian", "node"],
  runner: ["debian", "node", "giteaRunner", "spireAgent", "buildx"],
} as const satisfies Readonly<Record<"controller" | "runner", readonly Base[]>>;

/**
 * The arguments of a build. Those with BUILDKIT_ATTEST_ make BuildKit attach what it attests: the provider has no other way to ask
 * for it (https://github.com/pulumi/pulumi-docker-build/issues/73), and turns off what buildx would attach by itself.
 * https://github.com/moby/buildkit/blob/v0.31.0/frontend/attestations/parse.go
 */
export function buildArguments(
  { sbomGenerator, bases }: Settings["images"],
  role: keyof typeof basesOf,
): Readonly<Record<string, string>> {
  const named = basesOf[role].flatMap((base) => {
    const image = bases[base];
    return image === undefined ? [] : [[baseArguments[base], image] as const];
  });
  return {
    ...Object.fromEntries(named),
    BUILDKIT_ATTEST_PROVENANCE: "mode=max",
    BUILDKIT_ATTEST_SBOM: `generator=${sbomGenerator}`,
  };
}

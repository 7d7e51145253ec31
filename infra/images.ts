import { Image } from "@pulumi/docker-build";
import {
  ComponentResource,
  type ComponentResourceOptions,
  ErrorHook,
  log,
  output,
  type Output,
} from "@pulumi/pulumi";
import { buildArguments } from "./image-arguments.ts";
import type { Settings } from "./settings.ts";

export type ImagesArgs = {
  readonly images: Settings["images"];
  /** Of what is pushed; workloads go by the digest. */
  readonly tag: string;
};

/**
 * The images of controller and executors, built and pushed here with SBOM and provenance, or as the publish workflows made
 * them. Workloads name them by digest, on the registry that the cluster pulls from.
 */
export class Images extends ComponentResource {
  readonly controller: Output<string>;
  readonly runner: Output<string>;

  constructor(name: string, { images, tag }: ImagesArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Images", name, {}, options);
    const registry = images.pushRegistry ?? images.pullRegistry;
    const onError = images.source === "build" ? [explainer(name, registry, images.builder)] : [];
    const from = (role: "controller" | "runner", dockerfile: string): Output<string> => {
      const { repository, digest } = images[role];
      const pull = `${images.pullRegistry}/${repository}`;
      if (images.source === "published") return output(`${pull}@${digest ?? ""}`);
      const built = new Image(
        role,
        {
          push: true,
          // With the command-line client buildx's own, lesser provenance would contend with what the arguments ask for.
          exec: false,
          buildOnPreview: false,
          tags: [`${registry}/${repository}:${tag}`],
          context: { location: "." },
          dockerfile: { location: dockerfile },
          buildArgs: buildArguments(images, role),
          ...(images.ca === undefined ? {} : { secrets: { extra_ca: images.ca } }),
          ...(images.builder === undefined ? {} : { builder: { name: images.builder } }),
        },
        // The provider would remove it from the registry, where Pods that run and an older state still refer to it.
        { parent: this, retainOnDelete: true, hooks: { onError } },
      );
      return built.digest.apply((made) => `${pull}@${made}`);
    };
    this.controller = from("controller", "controller/Dockerfile");
    this.runner = from("runner", "runner-image/Dockerfile");
    this.registerOutputs({ controller: this.controller, runner: this.runner });
  }
}

/** Says whom the provider has waited for; all other errors of the provider say what is wrong. */
function explainer(name: string, registry: string, builder: string | undefined): ErrorHook {
  const builders = builder === undefined ? "any builder" : `the builder ${builder}`;
  const waited = `it was waited in vain for ${builders} or the registry ${registry}`;
  return new ErrorHook(name, async ({ name: image, errors: [error = ""] }) => {
    if (error.includes("deadline exceeded"))
      await log.error(`image ${image}: ${waited}; docker buildx ls tells of builders`);
    return false;
  });
}

import { Image } from "@pulumi/docker-build";
import { ComponentResource, type ComponentResourceOptions, output, type Output } from "@pulumi/pulumi";
import type { Settings } from "./settings.ts";

export type ImagesArgs = { readonly images: Settings["images"] };

/**
 * The images of controller and executors, built and pushed here or as the publish workflows made them. Workloads name
 * them by digest, on the registry that the cluster pulls from.
 */
export class Images extends ComponentResource {
  readonly controller: Output<string>;
  readonly runner: Output<string>;

  constructor(name: string, { images }: ImagesArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Images", name, {}, options);
    const from = (role: "controller" | "runner", dockerfile: string): Output<string> => {
      const { repository, digest } = images[role];
      const pull = `${images.pullRegistry}/${repository}`;
      if (images.source === "published") return output(`${pull}@${digest ?? ""}`);
      const built = new Image(
        role,
        {
          push: true,
          // The command-line client: it alone takes the settings for attestations, and remote builders.
          exec: true,
          buildOnPreview: false,
          tags: [`${images.pushRegistry ?? images.pullRegistry}/${repository}:latest`],
          context: { location: "." },
          dockerfile: { location: dockerfile },
          ...(images.builder === undefined ? {} : { builder: { name: images.builder } }),
        },
        { parent: this },
      );
      return built.digest.apply((made) => `${pull}@${made}`);
    };
    this.controller = from("controller", "controller/Dockerfile");
    this.runner = from("runner", "runner-image/Dockerfile");
    this.registerOutputs({ controller: this.controller, runner: this.runner });
  }
}

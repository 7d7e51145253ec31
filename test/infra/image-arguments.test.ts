import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "mocha";
import { baseArguments, basesOf, buildArguments } from "../../infra/image-arguments.ts";
import { readSettings } from "../../infra/read-settings.ts";
import { allSecrets, stackSettings } from "../support/infra/stack-settings.ts";

describe("the arguments that images are built with", () => {
  const settings = (more: object) => {
    const images = { source: "build", pullRegistry: "registry.example.org", ...more };
    return readSettings(stackSettings({ images }), allSecrets).images;
  };

  it("B-104 ask for the whole provenance, and for an SBOM by BuildKit's own generator", () => {
    for (const role of ["controller", "runner"] as const)
      assert.deepEqual(buildArguments(settings({}), role), {
        BUILDKIT_ATTEST_PROVENANCE: "mode=max",
        BUILDKIT_ATTEST_SBOM: "generator=docker/buildkit-syft-scanner:stable-1",
      });
  });

  it("name a mirror's images to those that begin with them, and its generator", () => {
    const mirror = "mirror.example.org:5000";
    const bases = { node: `${mirror}/node:24`, buildx: `${mirror}/buildx:1` };
    const images = settings({ sbomGenerator: `${mirror}/scanner:1`, bases });
    const common = {
      NODE_IMAGE: bases.node,
      BUILDKIT_ATTEST_PROVENANCE: "mode=max",
      BUILDKIT_ATTEST_SBOM: `generator=${mirror}/scanner:1`,
    };
    assert.deepEqual(buildArguments(images, "controller"), common);
    assert.deepEqual(buildArguments(images, "runner"), { ...common, BUILDX_IMAGE: bases.buildx });
  });

  for (const [role, folder] of [
    ["controller", "controller"],
    ["runner", "runner-image"],
  ] as const)
    it(`name all that the Dockerfile of ${role} begins with, and nothing else`, () => {
      const file = readFileSync(new URL(`../../${folder}/Dockerfile`, import.meta.url), "utf8");
      const wanted = [...file.matchAll(/^ARG (\w+_IMAGE)=/gm)].map(([, name]) => name);
      assert.deepEqual(new Set(basesOf[role].map((base) => baseArguments[base])), new Set(wanted));
    });
});

import assert from "node:assert/strict";
import { appendFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { z } from "zod";
import { findInFiles } from "../support/find-in-files.ts";
import { materialsOf, packagesOf, stepsOf } from "../support/images/attested.ts";
import { type PushedImage, readPushed } from "../support/images/pushed-image.ts";
import { planted as lyingAbout } from "../support/images/use-images.ts";
import { objectsOfPulumi } from "../support/infra/cluster-objects.ts";
import {
  lostBuilder,
  pullRegistry,
  registryPassword,
  useBuildStack,
} from "../support/infra/use-build-stack.ts";
import { planted } from "../support/infra/use-queue-stack.ts";

const repositories = {
  controller: "gitea-dynamic-runner/controller",
  runner: "gitea-dynamic-runner/runner",
} as const;
type Role = keyof typeof repositories;
type References = Readonly<Record<Role, string>>;
const outputs = z.object({ controllerImage: z.string(), runnerImage: z.string() });
const buildMs = 30 * 60_000;

/** Nobody runs the Pods of its Deployment: a kubelet is played, see the API server's hooks. */
describe("images that a stack builds, through Pulumi's engine, its provider of images and BuildKit", function () {
  this.timeout(buildMs);
  const built = useBuildStack();
  let first: References;

  const digestOf = (reference: string) => reference.split("@")[1] ?? "";
  /** What the program returns. */
  const references = async (): Promise<References> => {
    const said: unknown = JSON.parse(await built.stack.done("stack", "output", "--json"));
    const { controllerImage: controller, runnerImage: runner } = outputs.parse(said);
    return { controller, runner };
  };
  const pushed = async (role: Role, reference: string): Promise<PushedImage> =>
    await readPushed(built.images.registry.url, repositories[role], digestOf(reference));
  /** Names of the objects that name it. */
  const usersOf = async (reference: string): Promise<readonly string[]> =>
    [...(await objectsOfPulumi(built.kubernetes.api))]
      .filter(([, { spec, data }]) => JSON.stringify([spec, data]).includes(reference))
      .map(([place]) => place.split("/").slice(-2).join("/"))
      .toSorted();
  const nothingMade = async () => {
    assert.deepEqual([...(await objectsOfPulumi(built.kubernetes.api)).keys()], []);
    assert.deepEqual(await built.streams(), []);
  };

  it("tells of a builder that there is none of, and of one that is away, before anything is changed", async () => {
    await built.configure({ builder: "none" });
    assert.match(await built.stack.refused("up", "--yes", "--skip-preview"), /no builder "none" found/);
    await built.configure({ builder: lostBuilder });
    assert.match(
      await built.stack.refused("up", "--yes", "--skip-preview"),
      /it was waited in vain for the builder lost or/,
    );
    await nothingMade();
  });

  it("tells of a registry that is down before anything is changed", async () => {
    const down = `127.0.0.1:${built.images.guardedPort}`;
    await built.configure({ pushRegistry: down });
    const said = await built.stack.refused("up", "--yes", "--skip-preview");
    assert.match(said, new RegExp(`failed to push ${down}/gitea-dynamic-runner/.*connection refused`));
    await nothingMade();
  });

  it("B-104 builds and pushes both with SBOM and provenance, and workloads name them by digest", async () => {
    await built.configure();
    await built.stack.done("up", "--yes", "--skip-preview");
    first = await references();
    for (const [role, bases, packages] of [
      ["controller", ["debian", "node"], ["pkg:npm/zod@", "pkg:deb/debian/tini@"]],
      ["runner", ["giteaRunner"], ["pkg:golang/gitea.com/gitea/runner@"]],
    ] as const) {
      assert.ok(first[role].startsWith(`${pullRegistry}/${repositories[role]}@sha256:`), first[role]);
      const image = await pushed(role, first[role]);
      const materials = materialsOf(image, "");
      for (const base of bases)
        assert.ok(
          materials.some(({ digest }) => digest === digestOf(built.bases[base])),
          `${base} of ${JSON.stringify(materials)}`,
        );
      assert.ok(stepsOf(image) > 0, `no step of ${role} is told of`);
      const listed = [...packagesOf(image)];
      for (const start of packages)
        assert.ok(
          listed.some((url) => url.startsWith(start)),
          `${start} of ${listed.length} packages`,
        );
      assert.ok(!JSON.stringify(image.statements).includes("BEGIN CERTIFICATE"));
    }
    assert.deepEqual(await usersOf(first.controller), ["deployments/gitea-dynamic-runner"]);
    assert.deepEqual(await usersOf(first.runner), ["configmaps/gitea-dynamic-runner", "pools/ci-vm"]);
  });

  it("finds nothing to do a second time, also when it looks at what is there", async () => {
    await built.stack.done("preview", "--refresh", "--run-program", "--expect-no-changes");
    await built.stack.done("up", "--yes", "--expect-no-changes");
    assert.deepEqual(await references(), first);
  });

  it("builds what has changed, and that alone, and leaves in the registry what was there", async () => {
    await appendFile(path.join(built.stack.folder, "scripts/setup-job-docker"), "# changed\n");
    const plan = await built.stack.plan();
    const images = plan.filter(({ resource }) => resource.startsWith("docker-build:"));
    assert.deepEqual(
      images.map(({ op, resource, detailedDiff }) => [op, resource, Object.keys(detailedDiff ?? {})]),
      [["update", "docker-build:index:Image runner", ["contextHash"]]],
    );
    await built.stack.done("up", "--yes", "--skip-preview");
    const now = await references();
    assert.equal(now.controller, first.controller);
    assert.notEqual(now.runner, first.runner);
    assert.deepEqual(await usersOf(now.runner), ["configmaps/gitea-dynamic-runner", "pools/ci-vm"]);
    assert.deepEqual(await usersOf(first.runner), []);
    for (const { runner } of [first, now]) assert.ok(stepsOf(await pushed("runner", runner)) > 0);
    const kept = (await built.stack.resources()).filter(({ retainOnDelete }) => retainOnDelete === true);
    assert.equal(kept.length, 2, "an image would be deleted in the registry together with its resource");
  });

  it("leaves secrets in no state, and in nothing that is said", async () => {
    const { folder, told } = built.pulumi;
    for (const [name, secret] of Object.entries({ ...planted, registryPassword, lyingAbout })) {
      for (const place of ["state", "home", "temporary", "platform/stacks"])
        assert.deepEqual(await findInFiles(path.join(folder, place), secret), [], `${name} in ${place}`);
      assert.ok(!told.join("\n").includes(secret), `${name} was said`);
    }
    // It was looked for in the right places.
    assert.ok((await findInFiles(path.join(folder, "state"), "BUILDKIT_ATTEST_SBOM")).length > 0);
  });
});

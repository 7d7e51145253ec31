import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "mocha";
import { parse } from "yaml";
import * as z from "zod";

const folder = path.join(import.meta.dirname, "../../.gitea/workflows");
const stepSchema = z.object({
  name: z.string().optional(),
  uses: z.undefined().optional(),
  run: z.string(),
  env: z.record(z.string(), z.string()).optional(),
});
const workflowSchema = z.object({
  name: z.string(),
  on: z.record(z.string(), z.unknown()),
  permissions: z.record(z.string(), z.string()),
  concurrency: z.unknown().optional(),
  jobs: z.record(
    z.string(),
    z.object({
      if: z.string().optional(),
      "runs-on": z.array(z.string()),
      "timeout-minutes": z.int(),
      env: z.record(z.string(), z.string()).optional(),
      steps: z.array(stepSchema),
    }),
  ),
});
const read = (name: string) => workflowSchema.parse(parse(readFileSync(path.join(folder, name), "utf8")));
const names = globSync("*", { cwd: folder }).toSorted();
const byHand = [
  "pod-smoke.yml",
  "publish-runner-image.yml",
  "spire-identity-smoke.yml",
  "vm-kind-smoke.yml",
  "vm-runtime-smoke.yml",
];

describe("the workflows of this repository", () => {
  it("B-95 are these, none of them with an action of somebody else's", () => {
    assert.deepEqual(names, [...byHand, "publish-images.yml", "pulumi-preview.yml", "test.yml"].toSorted());
    for (const name of names) read(name);
  });

  it("B-95 may read, and only the preview may write: comments", () => {
    for (const name of names) {
      const { permissions } = read(name);
      const more = name === "pulumi-preview.yml" ? { "pull-requests": "write" } : {};
      assert.deepEqual(permissions, { contents: "read", ...more }, name);
    }
  });

  it("end before Gitea ends them, after three hours", () => {
    for (const name of names)
      for (const job of Object.values(read(name).jobs)) assert.ok(job["timeout-minutes"] <= 170, name);
  });

  it("B-95 check out in one and the same way", () => {
    const checkouts = names
      .flatMap((name) => Object.values(read(name).jobs).flatMap(({ steps }) => steps))
      .filter(({ run }) => run.includes("git fetch"));
    assert.equal(checkouts.length, 5);
    for (const checkout of checkouts) assert.deepEqual(checkout, checkouts[0]);
  });

  it("B-95 B-98 run on the backend that they are about, a fork's tests on none that is root on a node", () => {
    for (const name of names)
      for (const {
        "runs-on": [first, backend = "", ...more],
      } of Object.values(read(name).jobs)) {
        assert.deepEqual([first, more], ["self-hosted", []], name);
        const wanted = /^(publish|vm)-/.test(name)
          ? /^vm$/
          : /smoke/.test(name)
            ? /^pod$/
            : /&& 'pod' \|\| 'vm' \}\}$/;
        assert.match(backend, wanted, name);
      }
  });

  it("B-96 B-97 B-98 start by hand, the controller's image also by a push that concerns it", () => {
    for (const name of byHand) assert.deepEqual(Object.keys(read(name).on), ["workflow_dispatch"], name);
    assert.deepEqual(read("publish-images.yml").on, {
      push: {
        branches: ["main"],
        paths: [
          ".gitea/workflows/publish-images.yml",
          "controller/**",
          "proto/**",
          "scripts/publish-image",
          "package.json",
          "package-lock.json",
        ],
      },
      workflow_dispatch: null,
    });
  });

  it("B-96 publish nothing but main, whose tag the image gets, though a person may start them for any branch", () => {
    for (const name of ["publish-images.yml", "publish-runner-image.yml"])
      assert.equal(read(name).jobs["publish"]?.if, "${{ github.ref == 'refs/heads/main' }}", name);
  });

  it("B-96 publish under these names", () => {
    for (const [name, title, image, dockerfile] of [
      ["publish-images.yml", "publish controller image", "controller", "controller/Dockerfile"],
      ["publish-runner-image.yml", "publish runner image", "runner", "runner-image/Dockerfile"],
    ] as const) {
      const workflow = read(name);
      assert.equal(workflow.name, title);
      const { env, "timeout-minutes": minutes, steps = [] } = workflow.jobs["publish"] ?? {};
      assert.equal(minutes, 45);
      assert.deepEqual(env, {
        IMAGE_NAME: image,
        IMAGE_REPOSITORY: `panxiao81/gitea-dynamic-runner-${image}`,
        IMAGE_DOCKERFILE: dockerfile,
        PUSH_REGISTRY: "zot-push.ad.ddupan.top",
        PULL_REGISTRY: "zot.ad.ddupan.top",
        SPIRE_AGENT_SOCKET: "/run/spire/agent-sockets/spire-agent.sock",
      });
      // Where a repository has none of these variables they are empty, which is as if they were not set.
      assert.deepEqual(steps.at(-1), {
        name: "Publish",
        env: {
          BUILDKIT_HOST: "${{ vars.BUILDKIT_HOST }}",
          IMAGE_SBOM_GENERATOR: "${{ vars.IMAGE_SBOM_GENERATOR }}",
        },
        run: "scripts/publish-image",
      });
    }
  });

  it("B-95 show secrets to the step that makes the plan, and to no other", () => {
    for (const name of names)
      for (const { name: step, run, env = {} } of Object.values(read(name).jobs).flatMap(
        ({ steps }) => steps,
      )) {
        const values = Object.values(env).join(" ");
        if (step === "Plan") assert.match(values, /secrets\./);
        else assert.doesNotMatch(values, /secrets\./, `${name}: ${step}`);
        // What somebody else wrote, such as a branch's name, is no part of a script.
        assert.doesNotMatch(run, /\$\{\{/, `${name}: ${step}`);
      }
  });
});

import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { stackSettings } from "../support/infra/stack-settings.ts";
import { planted } from "../support/infra/use-queue-stack.ts";
import { type Stack, usePulumi } from "../support/infra/use-pulumi.ts";

describe("the platform through Pulumi's engine, with a configuration that is none", () => {
  const pulumi = usePulumi();

  const refusedWith = async (stack: Stack, mistakes: readonly string[]) => {
    for (const words of [["preview"], ["up", "--yes"]] as const) {
      const [command, ...options] = words;
      const said = await stack.refused(command, ...options);
      assert.match(said, /the stack's configuration is not usable:/);
      for (const mistake of mistakes)
        assert.ok(said.includes(`  ${mistake}`), `${mistake} is not in: ${said}`);
    }
    // But for the stack itself, which the engine registers before it runs the program.
    const others = (await stack.resources()).filter(({ type }) => type !== "pulumi:pulumi:Stack");
    assert.deepEqual(others, []);
  };

  it("tells of everything that a new stack lacks, and registers nothing", async () => {
    const stack = await pulumi.stack("empty", { program: "platform", secrets: {} });
    await refusedWith(stack, [
      "kubeContext: it is required",
      "gitea: it is required",
      "nats: it is required",
      "spire: it is required",
      "images: it is required",
      "giteaRunnerToken: it is required, set it by pulumi config set --secret giteaRunnerToken",
      "natsPassword: it is required",
      "capabilityKeys: it is required",
      "openSandboxApiKey: it is required",
    ]);
  });

  it("tells of every mistake at once, by key, and registers nothing", async () => {
    const stack = await pulumi.stack("wrong", { program: "platform", secrets: planted });
    const settings = stackSettings();
    await stack.configure({
      ...settings,
      suffix: "Not_A_Word",
      typo: true,
      pod: { capacity: 0 },
      vm: { ...(settings["vm"] as object), label: "vm-prod", capacity: -1 },
      spire: { trustDomain: "https://example.org" },
      images: { ...(settings["images"] as object), controller: { repository: "ci/controller:latest" } },
    });
    await refusedWith(stack, [
      "suffix: it is no word",
      "typo: there is no such key",
      "pod.capacity: it has to be 1 or more",
      "vm.label: it is neither vm nor vm-dev",
      "vm.capacity: it has to be 1 or more",
      "spire.trustDomain: it is no trust domain",
      "images.controller.repository: it is no repository",
    ]);
  });

  it("tells of what contradicts itself, and never a secret", async () => {
    const stack = await pulumi.stack("odd", { program: "platform", secrets: planted });
    const { images } = stackSettings();
    await stack.configure({
      ...stackSettings(),
      components: ["pod-worker"],
      images: { ...(images as object), runner: { repository: "ci/runner" } },
      spire: { trustDomain: "example.org" },
    });
    await refusedWith(stack, [
      "components: a worker needs the scheduler",
      "spire.agentId: it is required with pod-worker",
      "images.runner.digest: it is required with images.source published",
    ]);
    for (const secret of Object.values(planted)) assert.ok(!pulumi.told.join("\n").includes(secret));
  });
});

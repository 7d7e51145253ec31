import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "mocha";
import { parse } from "yaml";
import { readSettings } from "../../infra/read-settings.ts";
import { settingsMistakes } from "../support/infra/settings-mistakes.ts";
import { settingsTable } from "../support/infra/settings-table.ts";
import { allSecrets, devSettings, stackSettings } from "../support/infra/stack-settings.ts";

describe("a stack's configuration", () => {
  const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  const within = (key: string, overrides: object) => ({
    [key]: { ...(stackSettings()[key] as object), ...overrides },
  });

  it("B-106 is usable for prod and for dev", () => {
    assert.deepEqual(settingsMistakes(stackSettings()), []);
    assert.deepEqual(settingsMistakes(devSettings()), []);
    const { pod, vm } = readSettings(stackSettings(), allSecrets);
    assert.deepEqual(
      [pod.capacity, vm?.capacity, vm?.label, vm?.pool.runtimeClass],
      [4, 1, "vm", "kata-clh-runtime-rs"],
    );
  });

  it("tells of all mistakes at once, by key", () => {
    const given = stackSettings({
      colour: "red",
      pod: { capacity: 0, timeout: 5 },
      ...within("spire", { trustDomain: "spiffe://example.org" }),
      ...within("vm", { label: "vm-prod", capacity: -1 }),
      suffix: "Dev",
    });
    delete given["gitea"];
    assert.deepEqual(
      new Set(
        settingsMistakes(given, new Set(["natsPassword", "openSandboxApiKey"])).map(
          (line) => line.split(":")[0],
        ),
      ),
      new Set([
        "colour",
        "pod.capacity",
        "pod.timeout",
        "spire.trustDomain",
        "vm.label",
        "vm.capacity",
        "suffix",
        "gitea",
        "giteaRunnerToken",
        "capabilityKeys",
      ]),
    );
  });

  for (const [title, given, expected] of [
    [
      "B-104 a published image without digest",
      within("images", { runner: { repository: "ci/runner" } }),
      "images.runner.digest: it is required with images.source published",
    ],
    [
      "a mirror's image that is none",
      within("images", { bases: { node: "mirror.example.org/node" } }),
      "images.bases.node: it is no image with a tag or a digest, as in registry.example.org/task-executor:v1",
    ],
    [
      "a generator of SBOMs that is no image",
      within("images", { sbomGenerator: "true" }),
      "images.sbomGenerator: it is no image with a tag or a digest, as in registry.example.org/task-executor:v1",
    ],
    [
      "an authority for builds that is a file's name",
      within("images", { ca: "/etc/ssl/certs/ca.pem" }),
      "images.ca: it is no certificate in PEM",
    ],
    [
      "a worker without the scheduler",
      { components: ["pod-worker"] },
      "components: a worker needs the scheduler in the same process",
    ],
    ["a scheduler without a worker", { components: ["scheduler"] }, "components: a scheduler needs a worker"],
    ["VMs without where they are made", { vm: undefined }, "vm: it is required with vm-worker"],
    [
      "Pods without their agents",
      within("spire", { agentId: undefined }),
      "spire.agentId: it is required with pod-worker",
    ],
    [
      "agents of another trust domain",
      within("spire", { agentId: "spiffe://example.com/agent" }),
      "spire.agentId: it is not below spire.trustDomain",
    ],
    [
      "guest agents without SPIRE's API",
      within("vm", { identity: "guest-agent" }),
      "spire.serverApi: it is required with vm.identity guest-agent",
    ],
    [
      "an authority for a server that is asked without TLS",
      within("vm", { ca: certificate }),
      "vm.ca: it does nothing without https in vm.api",
    ],
    [
      "a task-executor that nobody can name",
      within("vm", { taskExecutor: "task-executor" }),
      "vm.taskExecutor: it is no image with a tag or a digest, as in registry.example.org/task-executor:v1",
    ],
    [
      "VMs that start anew",
      within("vm", { pool: { template: { restartPolicy: "Always" } } }),
      "vm.pool.template: restartPolicy has to be Never",
    ],
    [
      "exceptions to policies that are not there",
      { network: { policies: false, allowed: [{ cidr: "10.0.0.1/32", ports: [443] }] } },
      "network.allowed: it does nothing without network.policies",
    ],
  ] as const)
    it(`refuses ${title}`, () => {
      assert.deepEqual(settingsMistakes(stackSettings(given)), [expected]);
    });

  it("needs a key for OpenSandbox only where VMs are made", () => {
    const secrets = new Set([...allSecrets].filter((name) => name !== "openSandboxApiKey"));
    assert.deepEqual(
      settingsMistakes(stackSettings({ components: ["scheduler", "pod-worker"] }), secrets),
      [],
    );
    assert.match(
      settingsMistakes(stackSettings(), secrets).join(),
      /^openSandboxApiKey: it is required, set it by/,
    );
  });
});

describe("the README of infra", () => {
  it("has every key of a stack's configuration in its table, with its default, and no other", () => {
    const readme = readFileSync(new URL("../../infra/README.md", import.meta.url), "utf8");
    const rows = readme
      .split("\n")
      .map((line) => line.split("|").map((cell) => cell.trim()))
      .filter(([, key, , what]) => key?.startsWith("`") === true && what !== undefined && what !== "");
    const written = rows
      .filter((cells) => cells.length === 5)
      .map(([, key, usual, what]) => ({ key, usual, what }));
    const quoted = (text: string) => (text === "" ? "" : `\`${text}\``);
    assert.deepEqual(
      written,
      settingsTable().map(({ key, usual, what }) => ({ key: quoted(key), usual: quoted(usual), what })),
    );
  });

  for (const stack of ["prod", "dev"])
    it(`B-106 has a usable example of stack ${stack}`, () => {
      const file = new URL(`../../stacks/Pulumi.${stack}.yaml`, import.meta.url);
      const { config } = parse(readFileSync(file, "utf8")) as { config: Record<string, unknown> };
      const given = Object.entries(config).map(([key, value]) => [
        key.replace(/^gitea-dynamic-runner:/, ""),
        value,
      ]);
      const { vm, components } = readSettings(Object.fromEntries(given), allSecrets);
      assert.deepEqual([vm?.label, components.length], stack === "dev" ? ["vm-dev", 2] : ["vm", 3]);
    });
});

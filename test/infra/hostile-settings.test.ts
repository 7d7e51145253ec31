import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { readConfig } from "../../controller/config.ts";
import { controllerEnvironment } from "../../infra/controller-environment.ts";
import { namesOf } from "../../infra/names.ts";
import { readSettings } from "../../infra/read-settings.ts";
import { secretMistakes } from "../../infra/secret-mistakes.ts";
import { settingsMistakes } from "../support/infra/settings-mistakes.ts";
import { allSecrets, stackSettings } from "../support/infra/stack-settings.ts";

/** A stack in which one key has another value, by its path. */
function stackWith(key: string, value: unknown): Record<string, unknown> {
  const stack = structuredClone(stackSettings());
  const path = key.split(".");
  const last = path.pop() ?? "";
  let inner = stack;
  for (const name of path) inner = (inner[name] ??= {}) as Record<string, unknown>;
  inner[last] = value;
  return stack;
}

const template = "vm.pool.template";

/** A key, a value that must not pass, and what is said about it. */
const refused: readonly (readonly [key: string, value: unknown, expected: RegExp])[] = [
  // Another type than wanted is told as that, not as if nothing were there.
  ["pod.capacity", "4", /^pod\.capacity: it has to be a whole number$/],
  ["pod.capacity", 1.5, /^pod\.capacity: it has to be a whole number$/],
  ["pod.capacity", Number.NaN, /^pod\.capacity: it has to be a whole number$/],
  ["pod.capacity", [4], /^pod\.capacity: it has to be a whole number$/],
  ["pod.capacity", null, /^pod\.capacity: it has to be a whole number$/],
  ["pod.capacity", 1e9, /^pod\.capacity: it has to be 100000 or less$/],
  ["pod.timeoutSeconds", 1e12, /^pod\.timeoutSeconds: it has to be a week/],
  ["gitea", [], /^gitea: it has to be a map/],
  ["gitea.endlessSeconds", 600, /^gitea\.endlessSeconds: it has to be 1200 or more, or no job could run$/],
  ["components", "scheduler", /^components: it has to be a list$/],
  ["pod.nodeSelector", ["a"], /^pod\.nodeSelector: it has to be a map/],
  ["pod.resources", { requests: { cpu: 4 } }, /^pod\.resources\.requests\.cpu: it has to be text/],
  ["protect", "yes", /^protect: it has to be true or false$/],
  // An address with a password would stand in a ConfigMap and in the state, in clear.
  ["gitea.url", "https://user:planted@gitea.example.org", /^gitea\.url: it is no http or https URL, without/],
  ["gitea.url", "https://gitea.example.org/?q=1", /^gitea\.url: it is no http/],
  ["gitea.url", "https://gitea.example.org\n", /^gitea\.url: it is no http/],
  ["nats.url", "nats://user:planted@nats:4222", /^nats\.url: it is no URL, .* without user and password$/],
  ["nats.url", "nats://planted@nats:4222", /^nats\.url: it is no URL/],
  ["nats.url", "nats://one:4222,two:4222", /^nats\.url: it is no URL/],
  ["nats.url", "nats://one:99999", /^nats\.url: it is no URL/],
  ["nats.provisionUrl", "nats://user:planted@nats:4222", /^nats\.provisionUrl: it is no URL/],
  ["vm.api", "http://user:planted@opensandbox", /^vm\.api: it is no http/],
  ["nats.ca", "-----BEGIN CERTIFICATE-----", /^nats\.ca: it is no certificate in PEM$/],
  // Names that end in a controller which does not start, or in objects that no server takes.
  ["spire.trustDomain", "example.org.", /^spire\.trustDomain: it is no trust domain/],
  ["spire.trustDomain", "example..org", /^spire\.trustDomain: it is no trust domain/],
  ["spire.trustDomain", "Example.org", /^spire\.trustDomain: it is no trust domain/],
  ["spire.trustDomain", "exämple.org", /^spire\.trustDomain: it is no trust domain/],
  ["spire.agentId", "spiffe://example.org/{node}", /^spire\.agentId: it is no SPIFFE ID/],
  ["spire.agentId", "spiffe://example.org/a'b", /^spire\.agentId: it is no SPIFFE ID/],
  ["spire.agentId", "spiffe://example.org/", /^spire\.agentId: it is no SPIFFE ID/],
  ["spire.cluster", "a/b", /^spire\.cluster: it is no part of a SPIFFE ID$/],
  ["spire.className", "Upper/x", /^spire\.className: it is no name/],
  ["spire.serverApi", "spire:99999", /^spire\.serverApi: it is no host with a port/],
  ["spire.serverApi", "spire:0", /^spire\.serverApi: it is no host with a port/],
  ["images.pullRegistry", "registry.example.org:99999", /^images\.pullRegistry: it is no host/],
  ["images.pullRegistry", "registry.example.org.", /^images\.pullRegistry: it is no host/],
  ["vm.taskExecutor", "registry.example.org/../x:1", /^vm\.taskExecutor: it is no image/],
  ["pod.nodeSelector", { "a/b/c": "x" }, /^pod\.nodeSelector\.a\/b\/c: it is no label's name/],
  ["pod.nodeSelector", { zone: "a,b=c" }, /^pod\.nodeSelector\.zone: it is no label's value$/],
  ["pod.resources", { limits: { memory: "lots" } }, /^pod\.resources\.limits\.memory: it is no quantity/],
  ["pod.resources", { limits: { cpu: "-1" } }, /^pod\.resources\.limits\.cpu: it is no quantity/],
  ["pod.quota", { pods: "lots" }, /^pod\.quota\.pods: it is no quantity/],
  ["pod.tolerations", [{ key: "ci", operator: "In" }], /^pod\.tolerations\.0\.operator: it is neither/],
  ["pod.tolerations", [{}], /^pod\.tolerations\.0: it needs a key, or Exists$/],
  [
    "pod.tolerations",
    [{ key: "ci", operator: "Exists", value: "x" }],
    /^pod\.tolerations\.0: Exists has no value$/,
  ],
  // CI_RUNNER_EVENTS is the stream of events of the stack that has no suffix.
  ["suffix", "events", /^suffix: it is the name of a part of another stack's queue$/],
  ["suffix", "state", /^suffix: it is the name of a part of another stack's queue$/],
  ["network.internal", ["0.0.0.0/0"], /^network\.internal\.0: it is all there is/],
  ["network.internal", ["fd00::/8"], /^network\.internal\.0: it is no range of IPv4/],
  [
    "network.allowed",
    [{ cidr: "10.0.0.1/32", ports: [0] }],
    /^network\.allowed\.0\.ports\.0: it is no port$/,
  ],
  // A VM that is none, or that is open to the node or the cluster.
  [
    template,
    { runtimeClassName: "runc" },
    /^vm\.pool\.template: runtimeClassName stands in vm\.pool\.runtime/,
  ],
  [template, { runtimeClassName: null }, /^vm\.pool\.template: runtimeClassName stands in/],
  [template, { hostNetwork: true }, /^vm\.pool\.template: hostNetwork is the node's/],
  [
    template,
    { automountServiceAccountToken: true },
    /^vm\.pool\.template: automountServiceAccountToken has to/,
  ],
  [template, { nodeSelector: { a: "b" } }, /^vm\.pool\.template: nodeSelector stands in/],
  [template, { nodeName: "node-1" }, /^vm\.pool\.template: nodeName would/],
  [template, { containers: [{ image: "agent" }] }, /^vm\.pool\.template: containers is no list of objects/],
  [template, { containers: null }, /^vm\.pool\.template: containers is null/],
  [
    template,
    { containers: [{ name: "executor", command: ["sleep"] }] },
    /^vm\.pool\.template: the executor's command is what brings it a job$/,
  ],
  ["vm.pool.warm", 2, /^vm\.pool\.warm: it is more than vm\.capacity$/],
];

describe("a stack's configuration that would give a platform which is broken or open", () => {
  for (const [key, value, expected] of refused)
    it(`is refused: ${key} ${JSON.stringify(value)}`, () => {
      const [first = "", ...others] = settingsMistakes(stackWith(key, value));
      assert.match(first, expected);
      assert.deepEqual(others, []);
      assert.doesNotMatch(first, /planted/);
    });

  it("is refused where the controller is sent to the nodes that it keeps off", () => {
    const stack = stackWith("pod.nodeSelector", { ci: "pods" });
    assert.deepEqual(
      settingsMistakes({ ...stack, controller: { nodeSelector: { ci: "pods", zone: "a" } } }),
      ["controller.nodeSelector: it names the nodes of pod.nodeSelector, where the controller never runs"],
    );
    assert.deepEqual(settingsMistakes({ ...stack, controller: { nodeSelector: { zone: "a" } } }), []);
  });

  for (const [quota, resources, expected] of [
    [{ "requests.memory": "64Gi" }, {}, ["pod.resources: it needs requests.memory, or pod.quota lets no"]],
    [{ cpu: "8" }, {}, ["pod.resources: it needs requests.cpu, or pod.quota lets no"]],
    [{ "limits.cpu": "8" }, { requests: { cpu: "1" } }, ["pod.resources: it needs limits.cpu, or"]],
    // What is not requested is what it is limited to.
    [{ "requests.memory": "64Gi" }, { limits: { memory: "4Gi" } }, []],
    [{ pods: "8" }, {}, []],
  ] as const)
    it(`is refused where no executor could start: quota ${JSON.stringify(quota)}, ${JSON.stringify(resources)}`, () => {
      const told = settingsMistakes(stackSettings({ pod: { quota, resources } }));
      assert.equal(told.length, expected.length, told.join());
      for (const [index, words] of expected.entries()) assert.ok(told[index]?.startsWith(words), told[index]);
    });

  for (const [title, secret, expected] of [
    [
      "a key that is too short",
      ["capabilityKeys", `planted\n${"k".repeat(32)}`],
      /^capabilityKeys: a key has/,
    ],
    ["no key", ["capabilityKeys", "# planted\n\n"], /^capabilityKeys: it holds no key$/],
    ["an empty password", ["natsPassword", " "], /^natsPassword: it is empty$/],
    ["a password with a line's end", ["natsPassword", "planted\n"], /^natsPassword: it has white space/],
    ["two keys", ["capabilityKeys", `${"k".repeat(32)}\n${"l".repeat(40)}\n`], undefined],
    ["a password", ["natsPassword", "planted with a space"], undefined],
  ] as const)
    it(`${expected === undefined ? "may have" : "is refused with"} ${title}, of which nothing is told`, () => {
      const told = secretMistakes(new Map([secret]));
      if (expected === undefined) assert.deepEqual(told, []);
      else assert.match(told.join(), expected);
      assert.doesNotMatch(told.join(), /planted/);
    });

  it("is told with what is wrong with its secrets", () => {
    assert.throws(
      () => readSettings(stackWith("pod.capacity", 0), allSecrets, ["natsPassword: it is empty"]),
      /pod\.capacity: it has to be 1 or more\n {2}natsPassword: it is empty/,
    );
  });

  it("is told together with what does not fit together", () => {
    const stack = {
      ...stackWith("pod.capacity", 0),
      components: ["pod-worker"],
      images: { source: "published", pullRegistry: "https://registry" },
      network: { policies: false, controller: [] },
    };
    assert.deepEqual(
      new Set(settingsMistakes(stack).map((line) => line.split(":")[0])),
      new Set([
        "pod.capacity",
        "components",
        "images.pullRegistry",
        "images.controller.digest",
        "images.runner.digest",
        "network.controller",
      ]),
    );
  });
});

/** What an operator may well say, and the controller has to understand. */
const usable: readonly (readonly [key: string, value: unknown])[] = [
  ["kubeContext", "arn:aws:eks:eu-west-1:123456789012:cluster/ci"],
  ["nats.url", "nats://nats-0.nats.svc:4222,nats://nats-1.nats.svc:4222"],
  ["nats.url", "tls://[2001:db8::1]:4222"],
  ["gitea.url", "https://[2001:db8::1]:3000/gitea/"],
  ["gitea.runnerUuid", "8A1D5C1E-5B0B-4E0B-9A53-0D3F0A3B8F11"],
  ["spire.agentId", "spiffe://example.org/spire/agent/k8s_psat/{cluster}/{nodeUid}"],
  ["spire.className", "spire-system.spire"],
  ["spire.cluster", "_Home.lab-1"],
  ["pod.nodeSelector", { "example.org/ci": "pods", "kubernetes.io/os": "linux", dedicated: "" }],
  [
    "pod.tolerations",
    [{ operator: "Exists" }, { key: "a", effect: "NoExecute", operator: "Exists", tolerationSeconds: 30 }],
  ],
  ["pod.resources", { requests: { cpu: "500m", "ephemeral-storage": "10Gi" }, limits: { memory: "1e9" } }],
  ["pod.capacity", 100_000],
  ["pod.timeoutSeconds", 604_800],
  ["gitea.endlessSeconds", 1200],
  ["vm.taskExecutor", `registry.example.org:5000/a/task-executor:v1@sha256:${"a".repeat(64)}`],
  ["vm.taskExecutor", "nginx:1"],
];

describe("a stack's configuration that is usable", () => {
  for (const [key, value] of usable)
    it(`is understood by the controller: ${key} ${JSON.stringify(value)}`, () => {
      const settings = readSettings(stackWith(key, value), allSecrets);
      const environment = {
        ...controllerEnvironment(settings, namesOf(settings)),
        HOSTNAME: "controller-0",
        POD_EXECUTOR_IMAGE: "registry.example.org/runner",
      };
      const { backends } = readConfig(environment, () => "keys-of-at-least-32-characters-for-a-test");
      assert.deepEqual(
        backends.map(({ kind }) => kind),
        ["pod", "vm"],
      );
    });

  it("is understood by the controller with an IPv6 address of SPIRE's server", () => {
    const settings = readSettings(
      { ...stackWith("spire.serverApi", "[2001:db8::1]:8081"), components: ["scheduler", "vm-worker"] },
      allSecrets,
    );
    assert.equal(settings.spire.serverApi, "[2001:db8::1]:8081");
  });
});

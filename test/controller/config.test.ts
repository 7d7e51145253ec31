import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { type Config, ConfigError, readConfig } from "../../controller/config.ts";
import { defaultLeaseTimes } from "../../controller/lifecycle/lease.ts";
import { defaultStreamTimes } from "../../controller/queue/streams.ts";

const key = "k".repeat(40);
const files: Record<string, string> = {
  "/secrets/token": "the-runner-token\n",
  "/secrets/nats": "the-nats-password\n",
  "/secrets/keys": `# old and new\n${key}\n`,
  "/secrets/opensandbox": "the-opensandbox-key\n",
  "/secrets/empty": " \n",
  "/patch.yaml": "spec:\n  priorityClassName: ci\n",
  "/patch-of-more.yaml": "spec: {hostNetwork: true, containers: [{name: executor, image: other}]}",
  "/secrets/short": "too-short-a-key\n",
  "/ca.pem": "-----BEGIN CERTIFICATE-----\n",
};

function readFile(path: string): string {
  const text = files[path];
  if (text === undefined) throw Object.assign(new Error(`ENOENT: open '${path}'`), { code: "ENOENT" });
  return text;
}

type Environment = Record<string, string | undefined>;

const always: Environment = {
  GITEA_URL: "https://gitea.example.org/",
  GITEA_RUNNER_UUID: "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2",
  GITEA_RUNNER_TOKEN_FILE: "/secrets/token",
  NATS_URL: "nats://nats.example.org:4222",
  NATS_USER: "ci",
  NATS_PASSWORD_FILE: "/secrets/nats",
  TRUST_DOMAIN: "example.org",
  SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/api.sock",
  RUNNER_FACADE_URL: "https://facade.example.org:8443",
  RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/controller/facade",
  CAPABILITY_KEY_FILE: "/secrets/keys",
};
const forPods = {
  POD_EXECUTOR_IMAGE: "registry.example.org/runner@sha256:0",
  SPIRE_AGENT_ID: "spiffe://example.org/agent/{nodeUid}",
};
/** Where a Lease says who leads. */
const forLease = { CONTROLLER_NAMESPACE: "gitea-runner", HOSTNAME: "controller-0" };
const forVms = {
  OPENSANDBOX_API: "http://opensandbox.example.org",
  OPENSANDBOX_API_KEY_FILE: "/secrets/opensandbox",
};
const forLocal = {
  LOCAL_FOLDER: "/var/lib/runner",
  LOCAL_WORKLOAD_API_FOLDER: "/run/spiffe",
  GITEA_RUNNER_BINARY: "/usr/local/bin/gitea-runner",
};

const onSpire = {
  LOCAL_FOLDER: forLocal.LOCAL_FOLDER,
  GITEA_RUNNER_BINARY: forLocal.GITEA_RUNNER_BINARY,
  LOCAL_IDENTITY: "spire",
  LOCAL_SPIRE_SERVER_BINARY: "/opt/spire/bin/spire-server",
  LOCAL_SPIRE_SERVER_SOCKET: "/run/spire-server/api.sock",
  LOCAL_SPIRE_PARENT_ID: "spiffe://example.org/host",
  LOCAL_SPIRE_AGENT_SOCKET: "/run/spire/api.sock",
};

const complete: Environment = { ...always, ...forLease, ...forPods, ...forVms };

function config(changes: Environment = {}): Config {
  return readConfig({ ...complete, ...changes }, readFile);
}

function mistakes(changes: Environment, base: Environment = complete): string {
  try {
    readConfig({ ...base, ...changes }, readFile);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.message.replace("the configuration is not usable: ", "");
  }
  return assert.fail("the configuration was accepted");
}

describe("the configuration", () => {
  it("lets as many tasks wait as there are places, unless it is told otherwise", () => {
    const backlogs = (changes: Readonly<Record<string, string>>) =>
      config(changes).backends.map(({ backlog }) => backlog);
    assert.deepEqual(backlogs({ POD_CAPACITY: "7", VM_CAPACITY: "2" }), [7, 2]);
    assert.deepEqual(backlogs({ POD_CAPACITY: "7", POD_BACKLOG: "3", VM_BACKLOG: "9" }), [3, 9]);
  });

  it("has the documented defaults", () => {
    const { gitea, nats, facade, backends, vmLabel, allowForksOnPods, healthListen, logLevel } = config();
    assert.equal(gitea.url, "https://gitea.example.org");
    assert.deepEqual([nats.stream, nats.subjectBase], ["CI_RUNNER", "ci.assignment"]);
    assert.deepEqual(facade.listen, { host: undefined, port: 8443 });
    assert.deepEqual(healthListen, { host: undefined, port: 8080 });
    assert.deepEqual(backends, [
      { kind: "pod", runsOn: "kubernetes", capacity: 4, backlog: 4, timeoutSeconds: 14_400 },
      { kind: "vm", runsOn: "opensandbox", capacity: 1, backlog: 1, timeoutSeconds: 14_400 },
    ]);
    assert.deepEqual([vmLabel, allowForksOnPods, logLevel], ["vm", false, "info"]);
  });

  describe("of local executors", () => {
    const local = { ...always, POD_BACKEND: "local", VM_BACKEND: "local" };
    const readLocal = (more: Environment) => readConfig({ ...local, ...more }, readFile).local;

    it("gives them identities of the development Workload API unless it is told otherwise", () => {
      assert.deepEqual(readLocal(forLocal)?.identity, { kind: "workload-api", folder: "/run/spiffe" });
    });

    it("gives them identities of SPIRE, with short-lived SVIDs", () => {
      const identity = {
        kind: "spire",
        serverBinary: "/opt/spire/bin/spire-server",
        serverSocket: "/run/spire-server/api.sock",
        parentId: "spiffe://example.org/host",
        agentSocket: "/run/spire/api.sock",
        svidTtlSeconds: 600,
      };
      assert.deepEqual(readLocal(onSpire)?.identity, identity);
      const more = {
        LOCAL_SPIRE_SVID_TTL_SECONDS: "30",
        LOCAL_SPIRE_AGENT_BINARY: "/opt/spire/bin/spire-agent",
      };
      assert.deepEqual(readLocal({ ...onSpire, ...more }), {
        folder: "/var/lib/runner",
        giteaRunnerBinary: "/usr/local/bin/gitea-runner",
        identity: { ...identity, svidTtlSeconds: 30 },
        spireAgentBinary: "/opt/spire/bin/spire-agent",
      });
    });

    for (const name of Object.keys(onSpire).filter((one) => one.startsWith("LOCAL_SPIRE_")))
      it(`${name} is required with SPIRE, and not looked at without`, () => {
        assert.equal(mistakes({ ...onSpire, [name]: undefined }, local), `${name} is required`);
        assert.ok(readLocal({ ...forLocal, [name]: "relative, and no SPIFFE ID" }));
      });

    it("demands a parent below the trust domain", () => {
      const wrong = { ...onSpire, LOCAL_SPIRE_PARENT_ID: "spiffe://other.org/host" };
      assert.equal(mistakes(wrong, local), "LOCAL_SPIRE_PARENT_ID: it is not below TRUST_DOMAIN");
    });

    it("knows no third way", () => {
      assert.match(mistakes({ ...forLocal, LOCAL_IDENTITY: "vault" }, local), /^LOCAL_IDENTITY: /);
    });
  });

  describe("of Pods", () => {
    it("has the documented defaults", () => {
      assert.deepEqual(config().kubernetes, {
        pods: {
          namespace: "gitea-actions",
          serviceAccount: "gitea-task-executor",
          image: forPods.POD_EXECUTOR_IMAGE,
          uid: 2000,
          imagePullSecrets: [],
          nodeSelector: {},
          tolerations: [],
        },
        entries: {
          cluster: "homelab",
          className: "spire-mgmt-spire",
          agentId: forPods.SPIRE_AGENT_ID,
          uid: 2000,
          svidTtlSeconds: 600,
        },
      });
    });

    it("is what it is told", () => {
      const given = {
        POD_NAMESPACE: "ci",
        POD_SERVICE_ACCOUNT: "ci.executor",
        POD_EXECUTOR_UID: "1234",
        POD_RESOURCES: '{"requests": {"cpu": "500m"}, "limits": {"memory": "8Gi", "example.org/gpu": "1"}}',
        POD_IMAGE_PULL_SECRETS: "registry, mirror",
        POD_NODE_SELECTOR: "example.org/ci=yes, kubernetes.io/arch=amd64, example.org/spare=",
        POD_TOLERATIONS:
          '[{"key": "ci", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]',
        POD_RUNTIME_CLASS: "runc-ci",
        POD_DNS_POLICY: "Default",
        POD_PATCH_FILE: "/patch.yaml",
        SPIRE_CLUSTER: "other",
        SPIRE_CLASS: "spire.other",
        SPIRE_SVID_TTL_SECONDS: "300",
      };
      assert.deepEqual(config(given).kubernetes, {
        pods: {
          namespace: "ci",
          serviceAccount: "ci.executor",
          image: forPods.POD_EXECUTOR_IMAGE,
          uid: 1234,
          resources: {
            requests: { cpu: "500m" },
            limits: { memory: "8Gi", "example.org/gpu": "1" },
          },
          imagePullSecrets: ["registry", "mirror"],
          nodeSelector: { "example.org/ci": "yes", "kubernetes.io/arch": "amd64", "example.org/spare": "" },
          tolerations: [{ key: "ci", operator: "Exists", effect: "NoExecute", tolerationSeconds: 5 }],
          runtimeClass: "runc-ci",
          dnsPolicy: "Default",
          patch: { spec: { priorityClassName: "ci" } },
        },
        entries: {
          cluster: "other",
          className: "spire.other",
          agentId: forPods.SPIRE_AGENT_ID,
          uid: 1234,
          svidTtlSeconds: 300,
        },
      });
    });

    it("is not looked at where no Pods are made", () => {
      assert.equal(
        config({ COMPONENTS: "scheduler,vm-worker", POD_PATCH_FILE: "/not/there" }).kubernetes,
        undefined,
      );
      const local = { ...always, ...forVms, ...forLocal, POD_BACKEND: "local" };
      assert.equal(readConfig(local, readFile).kubernetes, undefined);
    });

    it("is refused with every field that a patch may not touch", () => {
      assert.equal(
        mistakes({ POD_PATCH_FILE: "/patch-of-more.yaml" }),
        "POD_PATCH_FILE: spec.hostNetwork: the system relies on it, spec.containers[executor].image: the system relies on it",
      );
    });

    it("demands an agent below the trust domain", () => {
      assert.equal(
        mistakes({ SPIRE_AGENT_ID: "spiffe://other.org/agent/{nodeUid}" }),
        "SPIRE_AGENT_ID: it is not below TRUST_DOMAIN",
      );
    });
  });

  describe("of the times", () => {
    const local = { ...always, ...forLocal, POD_BACKEND: "local", VM_BACKEND: "local" };

    it("is the usual ones unless it is told otherwise", () => {
      const { times, streamTimes, leaseTimes } = config();
      assert.deepEqual(
        [times, streamTimes, leaseTimes],
        [defaultTimes, defaultStreamTimes, defaultLeaseTimes],
      );
    });

    it("replaces those that a test names, the stream's and the Lease's among them", () => {
      const given = { RUNNER_TIMES: '{"claimMs": 12000, "ackWaitMs": 3000, "leaseRenewMs": 9000}' };
      const { times, streamTimes, leaseTimes } = readConfig({ ...local, ...given }, readFile);
      assert.deepEqual(leaseTimes, { ...defaultLeaseTimes, renewDeadlineMs: 9_000 });
      assert.deepEqual(times, { ...defaultTimes, claimMs: 12_000 });
      assert.deepEqual(streamTimes, { ...defaultStreamTimes, ackWaitMs: 3_000 });
      readConfig({ ...always, ...forVms, ...forLocal, ...given, POD_BACKEND: "local" }, readFile);
    });

    for (const text of ["12", "[]", "null", "claimMs=1", "{", '"claimMs"'])
      it(`refuses ${text}`, () => {
        assert.equal(mistakes({ RUNNER_TIMES: text }, local), "RUNNER_TIMES: it is not a JSON object");
      });

    for (const value of ["0", "-1", "1.5", '"9"', "null", "2147483648"])
      it(`refuses ${value} as a time`, () => {
        const report = mistakes({ RUNNER_TIMES: `{"beatMs": 1, "claimMs": ${value}}` }, local);
        const wanted = "RUNNER_TIMES: of claimMs: not a whole number of milliseconds from 1 to 2147483647";
        assert.equal(report, wanted);
      });

    for (const lease of ['"leaseDurationMs": 10000', '"leaseRetryMs": 10000'])
      it(`refuses ${lease}, by which two would lead or nobody would`, () => {
        assert.match(mistakes({ RUNNER_TIMES: `{${lease}}` }, local), /^RUNNER_TIMES: leaseRetryMs must be /);
      });

    it("refuses names that are none of a time", () => {
      const report = mistakes({ RUNNER_TIMES: '{"claimMs": 5, "secretMs": 5}' }, local);
      assert.match(report, /^RUNNER_TIMES: it may name inProgressMs, .*, leaseRetryMs and nothing else$/);
    });

    it("refuses any in production, and in earnest without a local backend", () => {
      const mistake = "RUNNER_TIMES: it is for tests, with local executors or with NODE_ENV=test";
      assert.equal(mistakes({ RUNNER_TIMES: "{}" }), mistake);
      const inTests = {
        ...always,
        ...forPods,
        ...forVms,
        ...forLease,
        RUNNER_TIMES: '{"claimMs": 5}',
        NODE_ENV: "test",
      };
      assert.equal(readConfig(inTests, readFile).times.claimMs, 5);
      const inProduction = mistakes({ RUNNER_TIMES: "{}", NODE_ENV: "production" }, local);
      assert.ok(inProduction.split("; ").includes(mistake), inProduction);
      const unused = { RUNNER_TIMES: "{}", POD_BACKEND: "local", COMPONENTS: "scheduler,vm-worker" };
      assert.equal(mistakes(unused), mistake);
    });
  });

  it("reads secrets from the files, without the line's end", () => {
    const { gitea, nats, openSandbox } = config();
    assert.equal(gitea.token, "the-runner-token");
    assert.equal(nats.password, "the-nats-password");
    assert.deepEqual(openSandbox, {
      api: "http://opensandbox.example.org",
      apiKeyFile: "/secrets/opensandbox",
      pool: "ci-vm",
    });
  });

  it("takes an empty variable for an absent one", () => {
    assert.equal(config({ POD_CAPACITY: "", VM_RUNNER_LABEL: "" }).vmLabel, "vm");
    assert.equal(mistakes({ GITEA_URL: "" }), "GITEA_URL is required");
  });

  describe("B-82 required variables", () => {
    for (const name of Object.keys(always))
      it(`${name} is always required`, () => {
        assert.equal(mistakes({ [name]: undefined }), `${name} is required`);
      });

    for (const name of Object.keys(forLease))
      it(`B-24 ${name} is required where a Lease says who leads, and only there`, () => {
        assert.equal(mistakes({ [name]: undefined }), `${name} is required`);
        const local = { ...always, ...forLocal, POD_BACKEND: "local", VM_BACKEND: "local" };
        assert.equal(readConfig(local, readFile).lease, undefined);
        assert.deepEqual(config().lease, { namespace: "gitea-runner" });
      });

    for (const name of Object.keys(forPods))
      it(`${name} is required for, and only for, the pod worker in Kubernetes`, () => {
        assert.equal(mistakes({ [name]: undefined }), `${name} is required`);
        const without = { ...always, ...forLease, ...forVms, [name]: undefined };
        assert.deepEqual(
          readConfig({ ...without, COMPONENTS: "scheduler,vm-worker" }, readFile).backends.map(
            ({ kind }) => kind,
          ),
          ["vm"],
        );
        readConfig({ ...without, ...forLocal, POD_BACKEND: "local" }, readFile);
      });

    for (const name of Object.keys(forVms))
      it(`B-64 ${name} is required for, and only for, the vm worker in OpenSandbox`, () => {
        assert.equal(mistakes({ [name]: undefined }), `${name} is required`);
        const without = { ...always, ...forLease, ...forPods, [name]: undefined };
        assert.deepEqual(
          readConfig({ ...without, COMPONENTS: "scheduler,pod-worker" }, readFile).backends.map(
            ({ kind }) => kind,
          ),
          ["pod"],
        );
        readConfig({ ...without, ...forLocal, VM_BACKEND: "local" }, readFile);
      });

    for (const name of Object.keys(forLocal))
      it(`${name} is required for a local backend only`, () => {
        const local = { ...forLocal, POD_BACKEND: "local", VM_BACKEND: "local" };
        assert.equal(mistakes({ ...local, [name]: undefined }, always), `${name} is required`);
        assert.equal(config().local, undefined);
      });

    it("does not look at what belongs to a component that is not selected", () => {
      const garbage = {
        VM_RUNNER_LABEL: "nonsense",
        VM_CAPACITY: "many",
        OPENSANDBOX_API: "nonsense",
        OPENSANDBOX_API_KEY_FILE: "/not/there",
      };
      const { backends, openSandbox } = config({ ...garbage, COMPONENTS: "scheduler,pod-worker" });
      assert.equal(backends.length, 1);
      assert.equal(openSandbox, undefined);
    });

    it("all mistakes come in one report, by variable name, contradictions with the rest", () => {
      const report = mistakes({
        GITEA_URL: undefined,
        GITEA_RUNNER_TOKEN_FILE: "/not/there",
        NATS_PASSWORD_FILE: "/secrets/empty",
        CAPABILITY_KEY_FILE: "/secrets/short",
        COMPONENTS: "vm-worker",
        VM_RUNNER_LABEL: "other",
        VM_CAPACITY: "0",
        VM_BACKEND: "local",
        NODE_ENV: "production",
        LOG_LEVEL: "loud",
      });
      assert.deepEqual(report.split("; "), [
        "CAPABILITY_KEY_FILE: in the file that it names: line 1 has fewer than 32 characters",
        "COMPONENTS: a worker needs the scheduler in the same process, claims live there",
        "GITEA_RUNNER_BINARY is required",
        "GITEA_RUNNER_TOKEN_FILE: the file that it names cannot be read (ENOENT)",
        "GITEA_URL is required",
        "LOCAL_FOLDER is required",
        "LOCAL_WORKLOAD_API_FOLDER is required",
        'LOG_LEVEL: Invalid option: expected one of "trace"|"debug"|"info"|"warn"|"error"|"fatal"',
        "NATS_PASSWORD_FILE: the file that it names is empty",
        "VM_BACKEND: local is for the quick start and tests, never with NODE_ENV=production",
        "VM_CAPACITY: it is not a whole number of at least 1",
        "VM_RUNNER_LABEL: it is neither vm nor vm-dev",
      ]);
    });
  });

  describe("components", () => {
    it("are refused without a scheduler, without a worker, and when unknown", () => {
      assert.match(mistakes({ COMPONENTS: "pod-worker" }), /^COMPONENTS: a worker needs the scheduler/);
      assert.equal(mistakes({ COMPONENTS: "scheduler" }), "COMPONENTS: a scheduler needs a worker");
      assert.match(mistakes({ COMPONENTS: "scheduler,pods" }), /^COMPONENTS: Invalid option/);
    });

    it("may be written with blanks", () => {
      assert.equal(config({ COMPONENTS: " scheduler , vm-worker " }).backends.length, 1);
    });

    it("B-64 take vm and vm-dev as label of the VM worker, and no other", () => {
      assert.equal(config({ VM_RUNNER_LABEL: "vm-dev" }).vmLabel, "vm-dev");
      assert.equal(mistakes({ VM_RUNNER_LABEL: "VM" }), "VM_RUNNER_LABEL: it is neither vm nor vm-dev");
    });
  });

  const refused: readonly (readonly [string, readonly string[]])[] = [
    [
      "GITEA_URL",
      ["gitea", "ftp://x", "https://user:word@x", "https://x?y", "https://x#y", "https://user@x"],
    ],
    ["GITEA_RUNNER_UUID", ["-", "a b", "a/b", "x".repeat(64)]],
    ["NATS_URL", ["nats", "http://x", "nats://ci:word@x", "nats://x,ci:word@y", "nats://", "nats://x, "]],
    ["NATS_STREAM", ["a.b", "a b", "*"]],
    ["NATS_SUBJECT_BASE", ["a b", "a.*", ">"]],
    ["NATS_CA_FILE", ["/not/there", "/secrets/empty"]],
    ["TRUST_DOMAIN", ["spiffe://example.org", "Example.org", "a b"]],
    ["SPIFFE_ENDPOINT_SOCKET", ["/run/x.sock", "unix://x", "http://x", "tcp://localhost:1"]],
    ["RUNNER_FACADE_LISTEN", ["8443", ":65536", "a b:1", "x:", "::1:1"]],
    ["HEALTH_LISTEN", ["8080", ":99999"]],
    ["RUNNER_FACADE_URL", ["http://x", "x", "https://user:word@x"]],
    ["RUNNER_FACADE_SPIFFE_ID", ["example.org/x", "spiffe://other.org/x", "spiffe://example.org/"]],
    ["POD_CAPACITY", ["0", "-1", "1.5", "many", "0x10", "1e3", " "]],
    ["POD_TIMEOUT_SECONDS", ["59", "x"]],
    ["POD_ALLOW_FORKS", ["yes", "1"]],
    ["POD_BACKEND", ["docker"]],
    ["POD_EXECUTOR_IMAGE", [" x", "a b"]],
    ["POD_EXECUTOR_UID", ["0", "root", "-1"]],
    ["POD_NAMESPACE", ["A", "a.b", "-a", "a".repeat(64), "a/b"]],
    ["POD_SERVICE_ACCOUNT", ["A", "a..b", "a/b"]],
    [
      "POD_RESOURCES",
      ["{", "[]", "cpu=1", '{"limits":{"cpu":1}}', '{"limit":{}}', '{"limits":{"cpu":"much"}}'],
    ],
    ["POD_IMAGE_PULL_SECRETS", ["A", "a,", "a,,b", "a b"]],
    ["POD_NODE_SELECTOR", ["a", "=b", "a=b=c", "a=b,,c=d", "a=-"]],
    [
      "POD_TOLERATIONS",
      ["{}", "[1]", '[{"key":1}]', '[{"operator":"Is"}]', '[{"effect":"Never"}]', '[{"more":1}]'],
    ],
    ["POD_RUNTIME_CLASS", ["A", "a/b"]],
    ["POD_DNS_POLICY", ["None", "default"]],
    ["POD_PATCH_FILE", ["/not/there", "/secrets/token", "/ca.pem"]],
    [
      "SPIRE_AGENT_ID",
      ["agent", "spiffe://example.org/{node}", "spiffe://example.org/{nodeUid}/", "{cluster}"],
    ],
    ["SPIRE_CLUSTER", ["a/b", "..", "a b"]],
    ["SPIRE_CLASS", ["A", "a/b"]],
    ["SPIRE_SVID_TTL_SECONDS", ["59", "10m"]],
    ["CONTROLLER_NAMESPACE", ["A", "a.b"]],
    ["LOG_LEVEL", ["verbose"]],
  ];
  for (const [name, values] of refused)
    for (const value of values)
      it(`refuses ${JSON.stringify(value)} as ${name}`, () => {
        const report = mistakes({ [name]: value });
        // With another trust domain others' IDs are not below it.
        const dependent = name === "TRUST_DOMAIN" ? ["RUNNER_FACADE_SPIFFE_ID", "SPIRE_AGENT_ID"] : [];
        for (const mistake of report.split("; ")) {
          const named = mistake.slice(0, mistake.search(/[: ]/));
          assert.ok(named === name || dependent.includes(named), report);
        }
        assert.ok(report.includes(`${name}:`), report);
      });

  it("takes addresses of all written forms", () => {
    const listen = (value: string) => config({ RUNNER_FACADE_LISTEN: value }).facade.listen;
    assert.deepEqual(listen("127.0.0.1:0"), { host: "127.0.0.1", port: 0 });
    assert.deepEqual(listen("[::1]:8443"), { host: "::1", port: 8443 });
    assert.deepEqual(listen("facade.example.org:443"), { host: "facade.example.org", port: 443 });
    assert.equal(
      config({ NATS_URL: "tls://a.example.org:4222, nats://b:4222" }).nats.url,
      "tls://a.example.org:4222, nats://b:4222",
    );
    assert.equal(config({ GITEA_URL: "https://example.org/git//" }).gitea.url, "https://example.org/git");
  });

  for (const name of [
    ...Object.keys({ ...complete, ...forLocal }),
    "NATS_CA_FILE",
    "OPENSANDBOX_CA_FILE",
    "POD_PATCH_FILE",
    "POD_RESOURCES",
    "POD_IMAGE_PULL_SECRETS",
    "POD_NODE_SELECTOR",
    "POD_TOLERATIONS",
    "SPIRE_CLUSTER",
    "RUNNER_TIMES",
  ])
    it(`B-82 never quotes a secret that was put into ${name} by mistake`, () => {
      const secret = "zq7Pw3 xK9/vB2mJ4+tR8=hN6dL";
      let message = "";
      try {
        config({ GITEA_RUNNER_UUID: "/", [name]: secret, LOG_LEVEL: "loud" });
      } catch (error) {
        message = error instanceof Error ? `${error.message} ${String(error.cause)}` : "";
      }
      assert.notEqual(message, "");
      for (const part of secret.split(/[ /+=]/)) assert.ok(!message.includes(part), message);
    });
});

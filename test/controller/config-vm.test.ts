import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { type Config, ConfigError, readConfig } from "../../controller/config.ts";
import { createTestCa } from "../support/test-pki.ts";

const files: Readonly<Record<string, string>> = {
  "/secrets/token": "the-runner-token\n",
  "/secrets/nats": "the-nats-password\n",
  "/secrets/keys": "k".repeat(40),
  "/secrets/opensandbox": "the-opensandbox-key\n",
};
const base: Readonly<Record<string, string>> = {
  COMPONENTS: "scheduler,vm-worker",
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
  CONTROLLER_NAMESPACE: "gitea-runner",
  HOSTNAME: "controller-0",
  OPENSANDBOX_API: "http://opensandbox.example.org",
  OPENSANDBOX_API_KEY_FILE: "/secrets/opensandbox",
};
const guests = { VM_IDENTITY: "guest-agent", SPIRE_SERVER_API: "spire-server.spire:8081" };

type Changes = Readonly<Record<string, string | undefined>>;

function config(changes: Changes = {}): Config {
  return readConfig({ ...base, ...changes }, (path) => files[path] ?? assert.fail(path));
}

function mistakes(changes: Changes): string {
  try {
    config(changes);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.message.replace("the configuration is not usable: ", "");
  }
  return assert.fail("the configuration was accepted");
}

describe("the configuration of the OpenSandbox server", () => {
  const https = { OPENSANDBOX_API: "https://opensandbox.example.org" };
  const OPENSANDBOX_CA_FILE = "/secrets/ca.pem";

  it("trusts the authorities that Node knows, or those of a file and no other", async () => {
    assert.equal(config(https).openSandbox?.ca, undefined);
    const ca = await createTestCa();
    for (const text of [ca.pem, `${ca.pem}${(await createTestCa()).pem}`]) {
      const { openSandbox } = withCa(text, { ...https, OPENSANDBOX_CA_FILE });
      assert.equal(openSandbox?.ca, text.trim());
    }
  });

  for (const [what, text] of [
    ["no certificate", "the-opensandbox-key"],
    ["half of one", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"],
    ["nothing", "\n"],
  ] as const)
    it(`refuses a file with ${what} in it`, () => {
      assert.throws(
        () => withCa(text, { ...https, OPENSANDBOX_CA_FILE }),
        (error) => {
          assert.ok(error instanceof ConfigError);
          assert.match(error.message, /not usable: OPENSANDBOX_CA_FILE: [^;]*the file that it names [^;]*$/);
          assert.ok(!error.message.includes("opensandbox-key"));
          return true;
        },
      );
    });

  it("refuses an authority where nothing is verified by it", async () => {
    const ca = await createTestCa();
    assert.throws(
      () => withCa(ca.pem, { OPENSANDBOX_CA_FILE }),
      /OPENSANDBOX_CA_FILE: OPENSANDBOX_API is not https/,
    );
  });

  it("is not looked at where no VMs are made", () => {
    const forPods = { POD_EXECUTOR_IMAGE: "runner:1", SPIRE_AGENT_ID: "spiffe://example.org/agent" };
    const pods = { COMPONENTS: "scheduler,pod-worker", OPENSANDBOX_CA_FILE: "/secrets/token", ...forPods };
    assert.equal(config(pods).openSandbox, undefined);
  });

  function withCa(text: string, changes: Changes): Config {
    return readConfig({ ...base, ...changes }, (path) => ({ ...files, "/secrets/ca.pem": text })[path] ?? "");
  }
});

describe("the configuration of VMs' identities", () => {
  it("is the pool's template unless it is told otherwise", () => {
    assert.deepEqual(config().vmIdentity, {
      kind: "template",
      socket: "unix:///run/spire/agent-sockets/spire-agent.sock",
      uid: 2000,
    });
    assert.deepEqual(config({ VM_SPIFFE_SOCKET: "unix:/run/a.sock", VM_EXECUTOR_UID: "1000" }).vmIdentity, {
      kind: "template",
      socket: "unix:///run/a.sock",
      uid: 1000,
    });
  });

  it("is an agent in each VM, which dials the server as we do unless it is told otherwise", () => {
    assert.deepEqual(config(guests).vmIdentity, {
      kind: "guest-agent",
      socket: "unix:///run/spire/agent-sockets/spire-agent.sock",
      uid: 2000,
      server: { kind: "tcp", host: "spire-server.spire", port: 8081 },
      guestServer: { host: "spire-server.spire", port: 8081 },
      entries: { className: "spire-mgmt-spire", svidTtlSeconds: 600 },
    });
    const { vmIdentity } = config({
      ...guests,
      SPIRE_SERVER_API: "unix:///run/spire/server.sock",
      VM_SPIRE_SERVER: "[fd00::1]:443",
      SPIRE_CLASS: "ci",
      SPIRE_SVID_TTL_SECONDS: "300",
    });
    assert.ok(vmIdentity?.kind === "guest-agent");
    assert.deepEqual(vmIdentity.server, { kind: "unix", path: "/run/spire/server.sock" });
    assert.deepEqual(vmIdentity.guestServer, { host: "fd00::1", port: 443 });
    assert.deepEqual(vmIdentity.entries, { className: "ci", svidTtlSeconds: 300 });
  });

  it("B-82 needs the server's API for agents in VMs, and the server's port where that is a socket", () => {
    assert.equal(mistakes({ VM_IDENTITY: "guest-agent" }), "SPIRE_SERVER_API is required");
    assert.equal(
      mistakes({ ...guests, SPIRE_SERVER_API: "unix:///run/spire/server.sock" }),
      "VM_SPIRE_SERVER is required",
    );
  });

  it("does not look at what belongs to another strategy, backend or worker", () => {
    const forGuests = { SPIRE_SERVER_API: "nonsense", VM_SPIRE_SERVER: "nonsense" };
    const forTemplates = { SPIRE_CLASS: "No Class", SPIRE_SVID_TTL_SECONDS: "soon" };
    assert.equal(config({ ...forGuests, ...forTemplates }).vmIdentity?.kind, "template");
    const forVms = { VM_IDENTITY: "nonsense", VM_SPIFFE_SOCKET: "nonsense", VM_EXECUTOR_UID: "root" };
    const local = {
      VM_BACKEND: "local",
      LOCAL_FOLDER: "/var/lib/runner",
      LOCAL_WORKLOAD_API_FOLDER: "/run/spiffe",
      GITEA_RUNNER_BINARY: "/usr/local/bin/gitea-runner",
    };
    assert.equal(config({ ...forGuests, ...forVms, ...local }).vmIdentity, undefined);
    const forPods = { POD_EXECUTOR_IMAGE: "runner:1", SPIRE_AGENT_ID: "spiffe://example.org/agent" };
    const pods = config({ ...forGuests, ...forVms, ...forPods, COMPONENTS: "scheduler,pod-worker" });
    assert.equal(pods.vmIdentity, undefined);
    assert.equal(config({ ...guests, SPIRE_AGENT_ID: "x", SPIRE_CLUSTER: "a b" }).kubernetes, undefined);
  });

  it("looks at what both workers need where either does", () => {
    assert.match(mistakes({ ...guests, SPIRE_CLASS: "No Class" }), /^SPIRE_CLASS: /);
    assert.match(mistakes({ ...guests, SPIRE_SVID_TTL_SECONDS: "soon" }), /^SPIRE_SVID_TTL_SECONDS: /);
  });

  for (const [name, values] of [
    ["VM_IDENTITY", ["csi", "Template"]],
    ["VM_SPIFFE_SOCKET", ["/run/a.sock", "tcp://127.0.0.1:1", "unix://a.sock"]],
    ["VM_EXECUTOR_UID", ["0", "runner"]],
    ["SPIRE_SERVER_API", ["spire-server", "https://spire-server:8081", "unix://a.sock", "tcp://10.0.0.1:1"]],
    ["VM_SPIRE_SERVER", ["unix:///run/spire/server.sock", "spire-server", ":8081"]],
  ] as const)
    for (const value of values)
      it(`refuses ${JSON.stringify(value)} as ${name}`, () => {
        assert.match(mistakes({ ...guests, [name]: value }), new RegExp(`^${name}: `));
      });

  for (const name of [
    "VM_IDENTITY",
    "VM_SPIFFE_SOCKET",
    "VM_EXECUTOR_UID",
    "SPIRE_SERVER_API",
    "VM_SPIRE_SERVER",
  ])
    it(`B-82 never quotes a secret that was put into ${name} by mistake`, () => {
      const message = mistakes({ ...guests, [name]: "zq7Pw3 xK9/vB2mJ4+tR8", LOG_LEVEL: "loud" });
      for (const part of ["zq7Pw3", "xK9", "vB2mJ4", "tR8"]) assert.ok(!message.includes(part), message);
    });
});

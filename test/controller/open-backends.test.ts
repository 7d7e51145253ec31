import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "mocha";
import { ConfigError, readConfig } from "../../controller/config.ts";
import { createLateSource } from "../../controller/late-source.ts";
import { openBackends } from "../../controller/open-backends.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { createFakeClock } from "../fakes/fake-clock.ts";
import { createFakeKubernetes } from "../fakes/fake-kubernetes.ts";
import { startFakeOpenSandbox } from "../fakes/opensandbox/fake-opensandbox.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { anExecutorRequest } from "../support/backend-contract.ts";
import { anExecutorMetadata } from "../support/builders.ts";
import { createTestCa, issueLeaf } from "../support/test-pki.ts";

const { signal } = new AbortController();
const files: Readonly<Record<string, string>> = {
  "/key": "0".repeat(64),
  "/token": "token",
  "/password": "password",
  "/patch": "spec: { priorityClassName: ci }",
};
const environment = {
  COMPONENTS: "scheduler,pod-worker",
  GITEA_URL: "https://gitea.example.org",
  GITEA_RUNNER_UUID: anExecutorMetadata().owner,
  GITEA_RUNNER_TOKEN_FILE: "/token",
  NATS_URL: "nats://nats:4222",
  NATS_USER: "runner",
  NATS_PASSWORD_FILE: "/password",
  TRUST_DOMAIN: "example.org",
  CAPABILITY_KEY_FILE: "/key",
  SPIFFE_ENDPOINT_SOCKET: "unix:///run/agent.sock",
  RUNNER_FACADE_URL: "https://facade.example.org:8443",
  RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/ci-controller",
  CONTROLLER_NAMESPACE: "ci",
  HOSTNAME: "controller-0",
  POD_EXECUTOR_IMAGE: "registry.example.org/runner:1",
  POD_CAPACITY: "7",
  POD_TIMEOUT_SECONDS: "60",
  POD_PATCH_FILE: "/patch",
  SPIRE_AGENT_ID: "spiffe://example.org/agent/{nodeUid}",
};
const config = readConfig(environment, (name) => files[name] ?? "");

describe("the backends that a configuration selects", () => {
  const clock = createFakeClock();
  const source = createLateSource();
  const platform = { source, clock, random: () => 0.5, log: createRecordingLogger() };

  it("make Pods in the cluster that they are given, as they are configured", async () => {
    const cluster = createFakeKubernetes(clock);
    const [pods, ...others] = await openBackends(config, { ...platform, kubernetes: cluster.api });
    assert.deepEqual(others, []);
    assert.deepEqual([pods?.capacity, pods?.backlog, pods?.timeoutMs], [7, 7, 60_000]);
    assert.equal(pods?.viewAgeMs?.(), undefined);
    const executor = await pods?.backend.create(anExecutorRequest("pod"), signal);
    const { spec } = cluster.get("Pod", executor?.name ?? "") ?? {};
    assert.equal(spec?.["priorityClassName"], "ci");
  });

  it("are refused where there is no cluster", async () => {
    await assert.rejects(openBackends(config, platform), (error: unknown) => {
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, /POD_BACKEND: there is no cluster to make Pods in/);
      return true;
    });
  });

  it("make VMs in the pool that is named, with the key that its file holds at each call", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "open-backends-"));
    const key = path.join(folder, "key");
    // Time stands still, so that no sandbox's time is over before the test is.
    await using server = await startFakeOpenSandbox({ clock, key: "the-key", lifeSeconds: 10_000_000_000 });
    try {
      server.pools.open("ci-vm-dev", 1);
      await writeFile(key, "another-key\n");
      const forVms = {
        COMPONENTS: "scheduler,vm-worker",
        OPENSANDBOX_API: String(server.url),
        OPENSANDBOX_API_KEY_FILE: key,
        OPENSANDBOX_POOL: "ci-vm-dev",
      };
      const [vms, ...others] = await openBackends(
        readConfig({ ...environment, ...forVms }, (name) => files[name] ?? "any"),
        { ...platform, clock: systemClock },
      );
      assert.deepEqual([vms?.backend.kind, others], ["vm", []]);
      assert.equal(vms?.viewAgeMs?.(), undefined);
      await assert.rejects(vms!.backend.list(signal), /listing VMs/);
      await writeFile(key, "the-key\n");
      assert.deepEqual(await vms?.backend.list(signal), { executors: [], invalid: [] });
      const executor = await vms?.backend.create(anExecutorRequest("vm"), signal);
      const [sandbox, ...more] = server.sandboxes();
      assert.deepEqual([sandbox?.pool, more], ["ci-vm-dev", []]);
      assert.equal(executor?.state.phase, "running");
      assert.match(sandbox?.environment["SPIFFE_ENDPOINT_SOCKET"] ?? "", /^unix:/);
      vms?.close?.();
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("make VMs by a server of whose authority they are told, and of no other", async () => {
    const ca = await createTestCa();
    const { chainPem: cert, keyPem } = await issueLeaf(ca, "", { uris: [], addresses: ["127.0.0.1"] });
    await using server = await startFakeOpenSandbox({ clock, key: "the-key", tls: { cert, key: keyPem } });
    const folder = await mkdtemp(path.join(tmpdir(), "open-backends-"));
    try {
      await writeFile(path.join(folder, "key"), "the-key\n");
      const forVms = {
        COMPONENTS: "scheduler,vm-worker",
        OPENSANDBOX_API: String(server.url),
        OPENSANDBOX_API_KEY_FILE: path.join(folder, "key"),
      };
      const open = async (more: Readonly<Record<string, string>>) => {
        const read = readConfig({ ...environment, ...forVms, ...more }, (name) =>
          name === "/ca" ? ca.pem : (files[name] ?? "any"),
        );
        const [vms] = await openBackends(read, { ...platform, clock: systemClock });
        assert.ok(vms !== undefined);
        return vms;
      };
      const told = await open({ OPENSANDBOX_CA_FILE: "/ca" });
      assert.deepEqual(await told.backend.list(signal), { executors: [], invalid: [] });
      const stranger = await open({});
      await assert.rejects(stranger.backend.list(signal), (error: unknown) => {
        assert.match(describeError(error), /certificate/);
        return true;
      });
      assert.equal(server.calls.length, 1);
      for (const vms of [told, stranger]) vms.close?.();
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("are refused where there is no server for VMs", async () => {
    const wanted = { ...config.backends[0]!, kind: "vm", runsOn: "opensandbox" } as const;
    await assert.rejects(openBackends({ ...config, backends: [wanted] }, platform), /no OpenSandbox server/);
  });
});

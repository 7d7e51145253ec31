import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, afterEach, before, describe, it } from "mocha";
import type { Executor } from "../../controller/backends/backend.ts";
import { createSpireEntries, type SpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { createGuestAgentIdentity } from "../../controller/backends/vm/guest-agent-identity.ts";
import { parseSpiffeId, type SpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock, systemSteadyClock } from "../../controller/platform/clock.ts";
import { createWorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source, type X509Source } from "../../controller/spiffe/x509-source.ts";
import { type AgentsClient, createAgentsClient } from "../../controller/spire-server/agents-client.ts";
import { SpireServerError } from "../../controller/spire-server/server-error.ts";
import { parseEntry } from "../../controller/static-entries/entry-status.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire, type Spire, startSpire } from "../../scripts/peers/start-spire.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../fakes/fake-kubernetes.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { anAssignment, anExecutorMetadata } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { skipFor } from "../support/needs-tools.ts";
import { runAs } from "../support/run-as.ts";

/** SPIRE is compiled the first time. */
const buildMs = 30 * 60_000;
const trustDomain = "example.org";
const controllerId = parseSpiffeId("spiffe://example.org/ci-controller");
const strangerId = parseSpiffeId("spiffe://example.org/stranger");
const runner = path.join(import.meta.dirname, "../../scripts/gitea-opensandbox-runner");
const jobUid = 60_610;
const metadata = anExecutorMetadata({ assignment: anAssignment({ backend: "vm" }) });
const name = "gitea-task-42-1-00000000";
const executor: Executor = { name, metadata, state: { phase: "running" }, createdAt: 0 };
const { signal } = new AbortController();
const common = { clock: systemClock, random: Math.random, log: createRecordingLogger() };

describe("the real SPIRE server and agents in guests", () => {
  let folder: string;
  let spire: Spire;
  let entries: SpireEntries;
  let stack: AsyncDisposableStack;

  before("start SPIRE", async function () {
    this.timeout(buildMs);
    const peers = await prepareSpire(createReport(), signal);
    folder = await mkdtemp(path.join(tmpdir(), "spire-server-"));
    await chmod(folder, 0o755);
    spire = await startSpire({ folder, trustDomain, peers, adminIds: [controllerId] }, signal);
    entries = createSpireEntries({
      serverBinary: peers.spireServer.binary,
      serverSocket: spire.serverSocket,
    });
    stack = new AsyncDisposableStack();
    await mkdir(path.join(folder, "bin"));
    // Where everybody can run it.
    await copyFile(peers.spireAgent.binary, path.join(folder, "bin/spire-agent"));
    await chmod(path.join(folder, "bin/spire-agent"), 0o755);
    for (const id of [controllerId, strangerId])
      await entries.create(
        {
          id: path.basename(id),
          spiffeId: id,
          parentId: spire.parentId,
          selectors: [`unix:uid:${process.geteuid?.() ?? 0}`],
        },
        signal,
      );
  });
  after(async () => {
    await stack.disposeAsync();
    await spire.stop();
    await rm(folder, { recursive: true, maxRetries: 5 });
  });

  const sourceOf = async (expectedId: SpiffeId): Promise<X509Source> => {
    const client = stack.use(createWorkloadClient({ kind: "unix", path: spire.agentSocket }));
    return stack.use(await openX509Source({ client, expectedId, readyTimeoutMs: 60_000, ...common }, signal));
  };
  const clientAs = async (id: SpiffeId): Promise<AgentsClient> =>
    stack.use(
      createAgentsClient({
        address: { kind: "tcp", host: spire.serverAddress, port: spire.serverPort },
        trustDomain,
        source: await sourceOf(id),
        clock: systemClock,
      }),
    );
  const clientBySocket = async (): Promise<AgentsClient> =>
    stack.use(
      createAgentsClient({
        address: { kind: "unix", path: spire.serverSocket },
        trustDomain,
        source: await sourceOf(controllerId),
        clock: systemClock,
      }),
    );

  it("lets us do it over its own socket, and over the network as one of its admins", async () => {
    for (const client of [await clientBySocket(), await clientAs(controllerId)]) {
      await client.createJoinToken(`ci.x.${Math.random().toString(16).slice(2)}`, 60, signal);
      const joined = await client.listJoined(signal);
      assert.equal(joined.length, 1, "the agent of the test itself");
      assert.ok((joined[0]?.expiresAt ?? 0) > Date.now());
      const nobody = parseSpiffeId("spiffe://example.org/spire/agent/join_token/nobody");
      assert.equal(await client.delete(nobody, signal), false);
    }
  });

  it("says to whoever is no admin what an operator has to do", async () => {
    const client = await clientAs(strangerId);
    for (const call of [client.listJoined(signal), client.createJoinToken("ci.x.y", 60, signal)])
      await assert.rejects(call, (error) => {
        assert.ok(error instanceof SpireServerError);
        assert.equal(error.trouble, "denied");
        assert.match(error.message, /spiffe:\/\/example\.org\/stranger do this.*admin_ids/);
        return true;
      });
  });

  it("refuses what it was asked wrong", async () => {
    const client = await clientBySocket();
    await assert.rejects(
      client.createJoinToken("ci.x.z", 0, signal),
      (error) => error instanceof SpireServerError && error.trouble === "refused",
    );
  });

  describe("with a VM that runs its own", () => {
    let cluster: FakeKubernetes;
    let children: ChildProcess[];
    before(function () {
      if (process.geteuid?.() !== 0) skipFor(this, "a job's process of another user needs root");
      children = [];
    });
    afterEach(async () => {
      for (const child of children.splice(0)) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        const end = new Promise((resolve) => child.once("exit", resolve));
        child.kill("SIGTERM");
        await end;
      }
    });

    /** A process with the VM's environment and a bootstrap that only notes its environment and waits. */
    const startVm = async (environment: NodeJS.ProcessEnv) => {
      const bin = path.join(folder, "bin");
      const notes = await mkdtemp(path.join(folder, "notes-"));
      await chmod(notes, 0o777);
      const lines = ["#!/bin/sh", `env > ${notes}/env`, `id -u > ${notes}/uid`, "exec sleep 600"];
      await writeFile(path.join(bin, "gitea-dynamic-runner"), `${lines.join("\n")}\n`, { mode: 0o755 });
      let said = "";
      const child = spawn(runner, [], {
        env: {
          PATH: `${bin}:/usr/sbin:/usr/bin:/sbin:/bin`,
          CI_RUN_FOLDER: path.join(notes, "run"),
          ...environment,
        },
        stdio: ["ignore", "ignore", "pipe"],
      });
      children.push(child);
      child.stderr.setEncoding("utf8").on("data", (text: string) => void (said += text));
      const started = async () => (await readdir(notes)).includes("uid");
      await eventually("the bootstrap runs", async () => {
        assert.ok(child.exitCode === null, said);
        return started();
      });
      return {
        child,
        said: () => said,
        read: (file: string) => readFile(path.join(notes, file), "utf8"),
        notes,
      };
    };
    const fetchAs = (uid: number, socket: string) =>
      runAs(uid, path.join(folder, "bin/spire-agent"), [
        "api",
        "fetch",
        "jwt",
        "-audience",
        "test",
        "-socketPath",
        socket,
      ]);

    it("B-93 gives the job's user its identity, and nobody else, until it is taken back", async () => {
      cluster = createFakeKubernetes(systemClock);
      const agents = await clientAs(controllerId);
      const source = await sourceOf(controllerId);
      const sockets = await mkdtemp(path.join(folder, "sockets-"));
      await chmod(sockets, 0o755);
      const socket = path.join(sockets, "agent.sock");
      const log = createRecordingLogger();
      const identity = createGuestAgentIdentity({
        owner: metadata.owner,
        trustDomain,
        agents,
        server: `${spire.serverAddress}:${spire.serverPort}`,
        bundle: () => source.current().bundlePem.join(""),
        socket: `unix://${socket}`,
        uid: jobUid,
        tokenTtlSeconds: 60,
        newToken: () => "0123456789abcdef0123456789abcdef",
        api: cluster.api,
        entries: { className: "ci", svidTtlSeconds: 60 },
        steady: systemSteadyClock,
        ...common,
        log,
      });
      const token = `ci.${metadata.owner}.${name}.0123456789abcdef0123456789abcdef`;

      const environment = await identity.prepare(metadata, signal);
      const vm = await startVm(environment);
      assert.equal((await vm.read("uid")).trim(), String(jobUid));
      assert.deepEqual(await identity.bind(executor, signal), { bound: true });
      assert.ok(!(await vm.read("env")).includes(token));
      assert.ok(!vm.said().includes(token));
      assert.match(vm.said(), /spire-agent: .*join_token\/\[token\]/);

      // What spire-controller-manager makes of the resource.
      const { spec } = parseEntry(cluster.get("ClusterStaticEntry", name));
      const agentId = parseSpiffeId(`spiffe://${trustDomain}/spire/agent/join_token/${token}`);
      assert.equal(spec.parentID, agentId);
      await entries.create(
        { id: "vm", spiffeId: spec.spiffeID ?? "", parentId: spec.parentID ?? "", selectors: spec.selectors },
        signal,
      );
      await eventually(
        "the job has its identity",
        async () => (await fetchAs(jobUid, socket)).code === 0,
        60_000,
        500,
      );
      assert.ok((await fetchAs(jobUid, socket)).stdout.includes(metadata.assignment.spiffeId));
      const other = await fetchAs(jobUid + 1, socket);
      assert.notEqual(other.code, 0);
      assert.match(other.stderr, /PermissionDenied/);

      await identity.revoke(name, signal);
      await entries.remove("vm", signal);
      assert.deepEqual(cluster.all("ClusterStaticEntry"), []);
      assert.ok(!(await agents.listJoined(signal)).some(({ id }) => id === agentId));
      await eventually(
        "the agent gives nothing any more",
        async () => (await fetchAs(jobUid, socket)).code !== 0,
        60_000,
        500,
      );
      assert.deepEqual(
        log.lines.filter(({ level }) => level !== "info"),
        [],
      );
    });

    it("B-93 lets no second agent join with a token that was used, and says so in the VM", async () => {
      const agents = await clientBySocket();
      const token = "ci.x.once";
      await agents.createJoinToken(token, 60, signal);
      const source = await sourceOf(controllerId);
      const sockets = await mkdtemp(path.join(folder, "sockets-"));
      await chmod(sockets, 0o755);
      const environment = {
        SPIFFE_ENDPOINT_SOCKET: `unix://${path.join(sockets, "agent.sock")}`,
        CI_EXECUTOR_UID: String(jobUid),
        CI_SPIRE_JOIN_TOKEN: token,
        CI_SPIRE_SERVER: `${spire.serverAddress}:${spire.serverPort}`,
        CI_SPIRE_TRUST_DOMAIN: trustDomain,
        CI_SPIRE_BUNDLE: source.current().bundlePem.join(""),
      };
      await startVm(environment);
      const late = { ...environment, SPIFFE_ENDPOINT_SOCKET: `unix://${path.join(sockets, "late.sock")}` };
      const child = spawn(runner, [], {
        env: {
          PATH: `${folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
          CI_RUN_FOLDER: path.join(sockets, "late"),
          ...late,
        },
        stdio: ["ignore", "ignore", "pipe"],
      });
      children.push(child);
      let said = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => void (said += text));
      assert.equal(await new Promise((resolve) => child.once("close", resolve)), 1, said);
      assert.match(said, /join token does not exist or has already been used/);
      assert.match(said, /the agent ended before its socket .* was there/);
      assert.ok(!said.includes(token), said);
    });
  });
});

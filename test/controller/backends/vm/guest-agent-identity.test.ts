import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { BackendError, type Executor } from "../../../../controller/backends/backend.ts";
import {
  createGuestAgentIdentity,
  type GuestAgentOptions,
} from "../../../../controller/backends/vm/guest-agent-identity.ts";
import type { VmIdentity } from "../../../../controller/backends/vm/vm-identity.ts";
import { permissionsOf } from "../../../../controller/kubernetes/permissions.ts";
import { createFakeClock, type FakeClock, settle } from "../../../fakes/fake-clock.ts";
import { createFakeGuestAgents, type FakeGuestAgents } from "../../../fakes/fake-guest-agents.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../../../fakes/fake-kubernetes.ts";
import { createRecordingLogger, type RecordingLogger } from "../../../fakes/recording-logger.ts";
import { anAssignment, anExecutorMetadata, testStart, testTrustDomain } from "../../../support/builders.ts";

const entry = "ClusterStaticEntry";
const name = "gitea-task-42-1-00000000";
const { signal } = new AbortController();
const executor: Executor = {
  name,
  metadata: anExecutorMetadata({ assignment: anAssignment({ backend: "vm" }) }),
  state: { phase: "running" },
  createdAt: testStart,
};
const { owner } = executor.metadata;

describe("the identity of a VM by an agent of its own", () => {
  let cluster: FakeKubernetes;
  let agents: FakeGuestAgents;
  let clock: FakeClock;
  let log: RecordingLogger;
  let identity: VmIdentity;
  let there: Set<string>;
  let asked: string[];
  let changes: string[];
  let over: AbortController;
  let running: Promise<unknown>;
  let made: number;

  const create = (more: Partial<GuestAgentOptions> = {}) =>
    createGuestAgentIdentity({
      owner,
      trustDomain: testTrustDomain,
      agents,
      server: "spire-server.example:8081",
      bundle: () => "-----BEGIN CERTIFICATE-----\n",
      socket: "unix:///run/spire/agent-sockets/spire-agent.sock",
      uid: 2000,
      tokenTtlSeconds: 600,
      newToken: () => String(++made).padStart(32, "0"),
      api: cluster.api,
      entries: { className: "ci", svidTtlSeconds: 600 },
      clock,
      // As of a process, it counts from elsewhere.
      steady: () => clock.now() - testStart,
      random: () => 0.5,
      log,
      ...more,
    });

  beforeEach(async () => {
    clock = createFakeClock(testStart);
    cluster = createFakeKubernetes(clock);
    cluster.allowOnly(
      permissionsOf({ controllerNamespace: undefined, podNamespace: undefined, guestAgents: true }),
    );
    agents = createFakeGuestAgents(testTrustDomain);
    log = createRecordingLogger();
    made = 0;
    there = new Set([name]);
    asked = [];
    changes = [];
    over = new AbortController();
    identity = create();
    running = identity.run(
      async (of) => {
        asked.push(of);
        return there.has(of);
      },
      (of) => changes.push(of),
      over.signal,
    );
    await settle();
  });
  afterEach(async () => {
    over.abort();
    await running;
    assert.deepEqual(clock.pending(), []);
  });

  /** Its VM has been asked for, and its agent has joined. */
  const joined = async () => {
    const { CI_SPIRE_JOIN_TOKEN: token = "" } = await identity.prepare(executor.metadata, signal);
    return agents.join(token);
  };
  const lines = () => log.lines.map(({ message, fields }) => [message, fields["executor"]]);

  it("B-60 begins with a token that counts once, until the VM's start is given up", async () => {
    const environment = await identity.prepare(executor.metadata, signal);
    const token = `ci.${owner}.${name}.00000000000000000000000000000001`;
    assert.deepEqual(environment, {
      SPIFFE_ENDPOINT_SOCKET: "unix:///run/spire/agent-sockets/spire-agent.sock",
      CI_EXECUTOR_UID: "2000",
      CI_SPIRE_JOIN_TOKEN: token,
      CI_SPIRE_SERVER: "spire-server.example:8081",
      CI_SPIRE_TRUST_DOMAIN: testTrustDomain,
      CI_SPIRE_BUNDLE: "-----BEGIN CERTIFICATE-----\n",
    });
    assert.deepEqual([...agents.tokens], [[token, 600]]);
    assert.deepEqual(cluster.all(entry), [], "a token that nobody has used stands nowhere");
    assert.ok(!JSON.stringify(log.lines).includes(token));
  });

  it("is another token for each VM that is asked for", async () => {
    await identity.prepare(executor.metadata, signal);
    await identity.prepare(executor.metadata, signal);
    assert.equal(agents.tokens.size, 2);
  });

  it("is an entry for the job's user, in the eyes of exactly that agent", async () => {
    const id = await joined();
    assert.deepEqual(await identity.bind(executor, signal), { bound: true });
    const { metadata, spec } = cluster.get(entry, name) ?? {};
    assert.deepEqual(spec, {
      spiffeID: executor.metadata.assignment.spiffeId,
      parentID: id,
      selectors: ["unix:uid:2000"],
      x509SVIDTTL: "10m0s",
      className: "ci",
    });
    assert.deepEqual(
      [metadata?.labels?.["ci.ddupan.top/owner"], metadata?.labels?.["ci.ddupan.top/backend"]],
      [owner, "vm"],
    );
    assert.equal(metadata?.labels?.["spire.spiffe.io/class-name"], "ci");
  });

  it("waits ten seconds for the agent", async () => {
    const { CI_SPIRE_JOIN_TOKEN: token = "" } = await identity.prepare(executor.metadata, signal);
    const binding = identity.bind(executor, signal);
    await clock.step(9_000);
    agents.join(token);
    await clock.step(1_000);
    assert.deepEqual(await binding, { bound: true });
  });

  it("is put off when no agent has joined by then, without an entry", async () => {
    await identity.prepare(executor.metadata, signal);
    const before = agents.lists();
    const binding = identity.bind(executor, signal);
    await clock.step(10_000);
    assert.deepEqual(await binding, { bound: false });
    assert.equal(agents.lists() - before, 11);
    assert.deepEqual(cluster.all(entry), []);
  });

  it("is not that of an agent of another executor, owner or make", async () => {
    const random = "f".repeat(32);
    for (const token of [
      `ci.${owner}.gitea-task-42-2-00000000.${random}`,
      `ci.somebody-else.${name}.${random}`,
      "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ])
      agents.join(token);
    const binding = identity.bind(executor, signal);
    await clock.step(10_000);
    assert.deepEqual(await binding, { bound: false });
  });

  it("stays with the agent that it has, and else takes the one that joined last", async () => {
    const first = await joined();
    await identity.bind(executor, signal);
    const second = await joined();
    await identity.bind(executor, signal);
    const parent = () => cluster.get(entry, name)?.spec?.["parentID"];
    assert.equal(parent(), first);
    await agents.delete(first, signal);
    await identity.bind(executor, signal);
    assert.equal(parent(), second);
    assert.equal(cluster.all(entry).length, 1);
  });

  it("is not that of the agent of a VM that was taken back, and asked for again", async () => {
    await joined();
    const { CI_SPIRE_JOIN_TOKEN: token = "" } = await identity.prepare(executor.metadata, signal);
    const early = identity.bind(executor, signal);
    await clock.step(10_000);
    assert.deepEqual(await early, { bound: false });
    assert.deepEqual(cluster.all(entry), []);
    const second = agents.join(token);
    assert.deepEqual(await identity.bind(executor, signal), { bound: true });
    assert.equal(cluster.get(entry, name)?.spec?.["parentID"], second);
  });

  it("waits ten seconds by a clock that nobody sets", async () => {
    let setBackMs = 0;
    const another = create({ clock: { ...clock, now: () => clock.now() - setBackMs } });
    const binding = another.bind(executor, signal);
    await clock.step(1_000);
    setBackMs = 3_600_000;
    await clock.step(9_000);
    assert.deepEqual(await binding, { bound: false });
  });

  it("B-62 is refused where the stored SPIFFE ID is not the expected one", async () => {
    await joined();
    const spiffeId = "spiffe://example.org/ci/acme/widgets/publish";
    const metadata = { ...executor.metadata, assignment: { ...executor.metadata.assignment, spiffeId } };
    for (const call of [identity.prepare(metadata, signal), identity.bind({ ...executor, metadata }, signal)])
      await assert.rejects(
        call,
        (error) => error instanceof BackendError && error.kind === "terminal" && error.reason === "identity",
      );
    assert.deepEqual([cluster.all(entry), agents.tokens.size], [[], 0]);
  });

  it("waits while SPIRE's server does not answer, and says so", async () => {
    agents.failNext(new Error("no answer"));
    await assert.rejects(identity.prepare(executor.metadata, signal), (error) => {
      assert.ok(error instanceof BackendError);
      assert.deepEqual([error.kind, error.reason], ["retryable", undefined]);
      assert.match(error.message, /preparing the identity of gitea-task-42-1-00000000/);
      return true;
    });
    await joined();
    agents.failNext(new Error("no answer"));
    await assert.rejects(identity.bind(executor, signal), /looking for the agent of gitea-task-42/);
    assert.deepEqual(await identity.bind(executor, signal), { bound: true });
  });

  it("is taken back with its agents, as often as that is asked for", async () => {
    await joined();
    await identity.bind(executor, signal);
    await joined();
    await identity.revoke(name, signal);
    assert.deepEqual([cluster.all(entry), agents.joined.size], [[], 0]);
    await identity.revoke(name, signal);
  });

  it("leaves what is somebody else's when it is taken back", async () => {
    const stranger = agents.join(`ci.somebody-else.${name}.${"0".repeat(32)}`);
    cluster.put({ kind: entry, metadata: { name }, spec: { spiffeID: "spiffe://example.org/other" } });
    await identity.revoke(name, signal);
    assert.ok(agents.joined.has(stranger));
    assert.ok(cluster.get(entry, name) !== undefined);
  });

  it("keeps no VM alive for an agent that cannot be evicted now: it is swept", async () => {
    await joined();
    await identity.bind(executor, signal);
    agents.failNext(new Error("no answer"));
    await identity.revoke(name, signal);
    there.delete(name);
    assert.deepEqual(cluster.all(entry), []);
    assert.deepEqual(lines(), [["agent of a vm not evicted, it is swept later", name]]);
    await clock.step(90_000);
    assert.equal(agents.joined.size, 0);
  });

  it("is not taken back while the entry cannot be removed", async () => {
    await joined();
    await identity.bind(executor, signal);
    cluster.failNext({ verb: "delete", resource: "clusterstaticentries" }, { status: 403 });
    await assert.rejects(
      identity.revoke(name, signal),
      (error) => error instanceof BackendError && error.kind === "retryable",
    );
    assert.equal(agents.joined.size, 1);
  });

  describe("what it lacks", () => {
    it("is an agent, a minute after one was looked for", async () => {
      const binding = identity.bind(executor, signal);
      await clock.step(10_000);
      await binding;
      changes = [];
      await clock.step(55_000);
      assert.equal(identity.lack(name), undefined);
      assert.deepEqual(changes, []);
      await clock.step(10_000);
      const lack = identity.lack(name);
      assert.equal(lack?.reason, "identity");
      assert.match(lack?.evidence ?? "", /agent in the VM has not joined SPIRE/);
      assert.deepEqual(changes, [name]);
      await joined();
      await identity.bind(executor, signal);
      assert.equal(identity.lack(name), undefined);
    });

    it("is what SPIRE's server says, a minute after it was first asked for the agent", async () => {
      await joined();
      for (const ms of [60_000, 0]) {
        agents.failNext(new Error("that ID must stand in admin_ids"));
        await assert.rejects(identity.bind(executor, signal), (error) => {
          assert.ok(error instanceof BackendError);
          assert.deepEqual([error.kind, error.reason], ["retryable", "identity"]);
          return true;
        });
        if (ms > 0) assert.equal(identity.lack(name), undefined);
        await clock.step(ms);
      }
      assert.match(identity.lack(name)?.evidence ?? "", /admin_ids/);
      assert.deepEqual(await identity.bind(executor, signal), { bound: true });
      assert.equal(identity.lack(name), undefined);
    });

    it("is a spire-controller-manager that reads its entry, half a minute after it was made", async () => {
      await joined();
      await identity.bind(executor, signal);
      await settle();
      changes = [];
      await clock.step(29_000);
      assert.equal(identity.lack(name), undefined);
      await clock.step(6_000);
      assert.match(identity.lack(name)?.evidence ?? "", /no spire-controller-manager has read it/);
      assert.deepEqual(changes, [name]);
      await assert.rejects(identity.bind(executor, signal), /no spire-controller-manager has read it/);
      cluster.edit(entry, name, (document) => ({ ...document, status: { rendered: true, masked: false } }));
      await settle();
      assert.equal(identity.lack(name), undefined);
    });
  });

  describe("the sweep", () => {
    it("removes entry and agent of a VM that is gone for a minute", async () => {
      await joined();
      await identity.bind(executor, signal);
      there.delete(name);
      await clock.step(60_000);
      await clock.step(30_000);
      assert.deepEqual([cluster.all(entry), agents.joined.size], [[], 0]);
      assert.deepEqual(
        new Set(lines().map(([message]) => message)),
        new Set(["agent without executor removed", "registration without executor removed"]),
      );
    });

    it("leaves those of a VM that is there, and asks about each once a minute at most", async () => {
      await joined();
      await identity.bind(executor, signal);
      await clock.step(600_000);
      assert.deepEqual([cluster.all(entry).length, agents.joined.size], [1, 1]);
      assert.ok(asked.length <= 20, String(asked.length));
    });

    it("leaves those of whoever else is there", async () => {
      const random = "0".repeat(32);
      agents.join(`ci.somebody-else.${name}.${random}`);
      agents.join("f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
      const labels = (of: string, kind: string) => ({
        "ci.ddupan.top/owner": of,
        "ci.ddupan.top/backend": kind,
      });
      cluster.put({ kind: entry, metadata: { name: "theirs", labels: labels("somebody-else", "vm") } });
      cluster.put({ kind: entry, metadata: { name: "a-pods", labels: labels(owner, "pod") } });
      there.clear();
      await clock.step(600_000);
      assert.deepEqual([cluster.all(entry).length, agents.joined.size], [2, 2]);
    });

    it("finds what the controller before this one has left", async () => {
      await joined();
      await identity.bind(executor, signal);
      over.abort();
      await running;
      there.delete(name);
      over = new AbortController();
      running = create().run(
        async () => false,
        () => {},
        over.signal,
      );
      await settle();
      await clock.step(60_000);
      await clock.step(30_000);
      assert.deepEqual([cluster.all(entry), agents.joined.size], [[], 0]);
    });
  });
});

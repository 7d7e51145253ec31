import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import type { FailureReason } from "../../../../controller/assignment/failure-reasons.ts";
import { BackendError, type Executor } from "../../../../controller/backends/backend.ts";
import { settle } from "../../../fakes/fake-clock.ts";
import type { Document } from "../../../fakes/kubernetes/document.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";
import { anExecutorMetadata, testTrustDomain } from "../../../support/builders.ts";
import { createRecordingLogger } from "../../../fakes/recording-logger.ts";
import { podSettings } from "../../../support/pod.ts";
import { fakeNode } from "./fake-kubelet.ts";
import { makePodWorld, type PodWorld } from "./pod-world.ts";

const entry = "ClusterStaticEntry";
const { signal } = new AbortController();
let world: PodWorld;

beforeEach(async () => {
  world = await makePodWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

async function created(): Promise<Executor> {
  const executor = await world.backend.create(anExecutorRequest("pod"), signal);
  await settle();
  return executor;
}

const bind = (executor: Executor) => world.backend.bindIdentity(executor, signal);

function refusal(kind: BackendError["kind"], message: RegExp, reason?: FailureReason) {
  return (error: unknown) => {
    assert.ok(error instanceof BackendError, String(error));
    assert.deepEqual([error.kind, error.reason], [kind, reason], error.message);
    assert.match(error.message, message);
    return true;
  };
}

function uidOf(kind: string, name: string): string {
  return world.cluster.get(kind, name)?.metadata.uid ?? "";
}

function withLabels(labels: Readonly<Record<string, string>>) {
  return (document: Document): Document => ({ ...document, metadata: { ...document.metadata, labels } });
}

describe("the registration of a Pod", () => {
  it("is for its UID, by the agent of its node", async () => {
    const executor = await created();
    assert.deepEqual(await bind(executor), { bound: true });
    const { metadata, spec } = world.cluster.get(entry, executor.name) ?? {};
    assert.equal(metadata?.labels?.["ci.ddupan.top/owner"], executor.metadata.owner);
    assert.deepEqual(spec, {
      spiffeID: executor.metadata.assignment.spiffeId,
      parentID: `spiffe://${testTrustDomain}/spire/agent/k8s_psat/lab/${uidOf("Node", fakeNode.name)}`,
      selectors: [
        `k8s:pod-uid:${uidOf("Pod", executor.name)}`,
        "k8s:container-name:executor",
        "unix:uid:2000",
      ],
      x509SVIDTTL: "10m0s",
      className: "ci",
    });
  });

  it("waits ten seconds for a node", async () => {
    world.kubelet.schedules = false;
    const executor = await created();
    const binding = bind(executor);
    await world.clock.step(9_000);
    world.cluster.setPod(executor.name, {}, fakeNode.name);
    assert.deepEqual(await binding, { bound: true });
  });

  it("that comes to nothing is what a Pod that runs waits for, as soon as that is known", async () => {
    const executor = await created();
    await bind(executor);
    let told = 0;
    const stop = world.backend.onChange((name) => {
      if (name === undefined || name === executor.name) told++;
    });
    const waiting = async () => {
      const state = (await world.listed(executor.name))?.state;
      assert.ok(state?.phase === "running");
      return state.waiting;
    };
    assert.equal(await waiting(), undefined);
    await world.clock.step(30_000);
    assert.ok(told > 0, "time alone tells");
    const failure = await waiting();
    assert.equal(failure?.reason, "identity");
    assert.match(failure.evidence, /no spire-controller-manager has read it; none runs, none has class "ci"/);
    told = 0;
    const masked = { rendered: true, masked: true };
    world.cluster.edit(entry, executor.name, (document) => ({ ...document, status: masked }));
    await settle();
    assert.ok(told > 0, "the entry tells");
    assert.match((await waiting())?.evidence ?? "", /an older one has the same/);
    const used = { rendered: true, masked: false };
    world.cluster.edit(entry, executor.name, (document) => ({ ...document, status: used }));
    await settle();
    assert.equal(await waiting(), undefined);
    stop();
  });

  it("is put off when no node has the Pod by then", async () => {
    world.kubelet.schedules = false;
    const binding = bind(await created());
    await world.clock.step(10_000);
    assert.deepEqual(await binding, { bound: false });
    assert.deepEqual(world.cluster.all(entry), []);
  });

  it("is of no use to a Pod that is gone or has ended", async () => {
    const executor = await created();
    await world.end(executor.name);
    await assert.rejects(bind(executor), refusal("retryable", /has ended/));
    await world.backend.delete(executor.name, signal);
    await assert.rejects(bind(executor), refusal("retryable", /is gone/));
    assert.deepEqual(world.cluster.all(entry), []);
  });

  it("is found again where its answer got lost, or the watch does not know of it", async () => {
    const executor = await created();
    world.cluster.watches.silence();
    world.cluster.failNext({ verb: "create", resource: "clusterstaticentries" }, "lost answer");
    assert.deepEqual(await bind(executor), { bound: true });
    const uid = uidOf(entry, executor.name);
    const again = await world.restarted();
    assert.deepEqual(await again.bindIdentity(executor, signal), { bound: true });
    assert.equal(uidOf(entry, executor.name), uid);
  });

  it("waits while the API takes none", async () => {
    const executor = await created();
    world.cluster.failNext({ verb: "create", resource: "clusterstaticentries" }, { status: 403 });
    await assert.rejects(bind(executor), refusal("retryable", /registering gitea-task-42/));
    assert.deepEqual(await bind(executor), { bound: true });
  });

  it("leaves alone what a stranger has registered under its name", async () => {
    const executor = await created();
    const metadata = { name: executor.name };
    world.cluster.put({ kind: entry, metadata, spec: { spiffeID: "spiffe://example.org/other" } });
    await assert.rejects(
      bind(executor),
      refusal(
        "terminal",
        /ClusterStaticEntry gitea-task-42-1-00000000 is there already, and not ours/,
        "identity",
      ),
    );
    await world.backend.delete(executor.name, signal);
    assert.equal(world.cluster.get(entry, executor.name)?.spec?.["spiffeID"], "spiffe://example.org/other");
  });

  it("takes the place of one of ours that is for another Pod", async () => {
    const first = await created();
    await bind(first);
    const stale = uidOf(entry, first.name);
    world.cluster.remove("Pod", first.name);
    await settle();
    const { metadata, spec } = world.cluster.get(entry, first.name) ?? {};
    await world.backend.delete(first.name, signal);
    const second = await created();
    world.cluster.put({
      kind: entry,
      metadata: { name: first.name, labels: metadata?.labels ?? {} },
      spec: spec ?? {},
    });
    await settle();
    await bind(second);
    const now = world.cluster.get(entry, second.name);
    assert.notEqual(now?.metadata.uid, stale);
    assert.ok(JSON.stringify(now?.spec).includes(uidOf("Pod", second.name)));
  });

  it("names the agent of a node that was made anew when it is asked for again", async () => {
    const executor = await created();
    await bind(executor);
    const status = { rendered: true, masked: false, set: false };
    world.cluster.edit(entry, executor.name, (document) => ({ ...document, status }));
    world.cluster.remove("Node", fakeNode.name);
    world.cluster.put({ kind: "Node", metadata: { name: fakeNode.name } });
    await world.clock.step(60_000);
    await bind(executor);
    assert.equal(world.cluster.count({ verb: "get", resource: "nodes" }), 1);
    await world.clock.step(1_000);
    await bind(executor);
    const parent = String(world.cluster.get(entry, executor.name)?.spec?.["parentID"]);
    assert.ok(parent.endsWith(uidOf("Node", fakeNode.name)), parent);
  });

  it("reads no node where the agents are not told apart by their nodes", async () => {
    const agentId = `spiffe://${testTrustDomain}/agent`;
    const entries = { cluster: "lab", className: "ci", agentId, uid: 2000, svidTtlSeconds: 600 };
    const backend = await world.another({ entries });
    const executor = await created();
    await backend.bindIdentity(executor, signal);
    assert.equal(world.cluster.get(entry, executor.name)?.spec?.["parentID"], agentId);
    assert.equal(world.cluster.count({ resource: "nodes" }), 0);
  });

  for (const [what, status, kind, message] of [
    [
      "cannot be one",
      { rendered: false, masked: false, set: false },
      "terminal",
      /spire-controller-manager cannot make an entry of it/,
    ],
    ["is masked", { rendered: true, masked: true, set: false }, "terminal", /an older one has the same/],
  ] as const)
    it(`is a named failure when its entry ${what}`, async () => {
      const executor = await created();
      await bind(executor);
      world.cluster.edit(entry, executor.name, (document) => ({ ...document, status }));
      await settle();
      await assert.rejects(bind(executor), refusal(kind, message, "identity"));
    });

  it("is a named failure when nobody reads its entry for half a minute, and may still come", async () => {
    const executor = await created();
    await bind(executor);
    await world.clock.step(29_000);
    assert.deepEqual(await bind(executor), { bound: true });
    await world.clock.step(1_000);
    await assert.rejects(
      bind(executor),
      refusal("retryable", /no spire-controller-manager has read it/, "identity"),
    );
    const status = { rendered: true, masked: false, set: false };
    world.cluster.edit(entry, executor.name, (document) => ({ ...document, status }));
    await settle();
    assert.deepEqual(await bind(executor), { bound: true });
  });
});

describe("the sweep of registrations", () => {
  /** Its Pod is removed by somebody else, and forgotten by us. */
  async function orphaned(): Promise<string> {
    const executor = await created();
    await bind(executor);
    world.cluster.remove("Pod", executor.name);
    await settle();
    return executor.name;
  }

  const there = (name: string) => world.cluster.get(entry, name) !== undefined;

  it("removes one whose Pod has been gone for a minute", async () => {
    const name = await orphaned();
    await world.clock.step(60_000);
    assert.ok(there(name));
    await world.clock.step(30_000);
    assert.ok(!there(name));
    assert.ok(world.log.lines.some(({ message }) => message === "registration without executor removed"));
  });

  it("leaves those of living Pods", async () => {
    const executor = await created();
    await bind(executor);
    await world.clock.step(600_000);
    assert.ok(there(executor.name));
  });

  it("asks the API whether the Pod is gone, and leaves the entry if it cannot be asked", async () => {
    const name = await orphaned();
    world.cluster.failNext({ verb: "get", resource: "pods" }, "hang up", 2);
    await world.clock.step(120_000);
    assert.ok(there(name));
    await world.clock.step(30_000);
    assert.ok(!there(name));
  });

  it("leaves one whose Pod is there, though the watch does not know it", async () => {
    const executor = await created();
    await bind(executor);
    world.cluster.edit("Pod", executor.name, withLabels({}));
    await world.clock.step(300_000);
    assert.ok(there(executor.name));
  });

  it("leaves one whose Pod is in the namespace that was configured before, and says so once", async () => {
    const executor = await created();
    await bind(executor);
    const log = createRecordingLogger();
    await world.another({ log, pods: podSettings({ namespace: "ci-jobs" }) });
    await world.clock.step(300_000);
    assert.ok(there(executor.name));
    const told = log.lines.filter(({ message }) =>
      message.startsWith("registration of a pod in another namespace"),
    );
    assert.deepEqual(
      told.map(({ level, fields }) => [level, fields["executor"], fields["namespace"]]),
      [["error", executor.name, "gitea-actions"]],
    );
  });

  it("touches nobody else's", async () => {
    const name = await orphaned();
    world.cluster.edit(entry, name, withLabels({ "ci.ddupan.top/owner": "somebody-else" }));
    const labels = { "ci.ddupan.top/owner": anExecutorMetadata().owner, "ci.ddupan.top/backend": "vm" };
    world.cluster.put({ kind: entry, metadata: { name: "of-a-vm", labels } });
    await world.clock.step(300_000);
    assert.ok(there(name));
    assert.ok(there("of-a-vm"));
  });

  it("does not remove one that somebody has just changed", async () => {
    const name = await orphaned();
    const held = world.cluster.holdNext({ verb: "delete", resource: "clusterstaticentries" }, "before");
    const stepping = world.clock.step(90_000);
    await held.arrived;
    world.cluster.edit(entry, name, withLabels({ "ci.ddupan.top/owner": "somebody-else" }));
    held.release();
    await stepping;
    assert.ok(there(name));
  });
});

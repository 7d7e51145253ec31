import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { BackendError, type Executor } from "../../../../controller/backends/backend.ts";
import type { FailureReason } from "../../../../controller/assignment/failure-reasons.ts";
import { createFakeClock, settle } from "../../../fakes/fake-clock.ts";
import type { Document } from "../../../fakes/kubernetes/document.ts";
import { anExecutorRequest } from "../../../support/backend-contract.ts";
import { anAttempt } from "../../../support/builders.ts";
import { fakeNode } from "./fake-kubelet.ts";
import { makePodWorld, type PodWorld } from "./pod-world.ts";

const owner = "ci.ddupan.top/owner";
const { signal } = new AbortController();
let world: PodWorld;

beforeEach(async () => {
  world = await makePodWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

async function created(overrides: Parameters<typeof anExecutorRequest>[1] = {}): Promise<Executor> {
  const executor = await world.backend.create(anExecutorRequest("pod", overrides), signal);
  await settle();
  return executor;
}

function refusal(kind: BackendError["kind"], message: RegExp, reason?: FailureReason) {
  return (error: unknown) => {
    assert.ok(error instanceof BackendError, String(error));
    assert.deepEqual([error.kind, error.reason], [kind, reason], error.message);
    const texts = [error.message, error.cause instanceof Error ? error.cause.message : ""];
    assert.match(texts.join(": "), message);
    return true;
  };
}

function labelled(labels: Record<string, string>) {
  return (pod: Document): Document => ({
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, ...labels } },
  });
}

describe("a Pod for an attempt", () => {
  it("costs five calls from its making to its removal, once its node is known", async () => {
    await created({ assignment: { taskId: 1n } }).then((first) => world.backend.bindIdentity(first, signal));
    const watches = world.cluster.calls.length;
    const executor = await created();
    await world.backend.bindIdentity(executor, signal);
    await world.listed(executor.name);
    await world.backend.markTerminal(executor.name, signal);
    await world.end(executor.name);
    await world.backend.delete(executor.name, signal);
    assert.deepEqual(
      world.cluster.calls.slice(watches).map(({ verb, resource }) => `${verb} ${resource}`),
      [
        "create pods",
        "create clusterstaticentries",
        "patch pods",
        "delete clusterstaticentries",
        "delete pods",
      ],
    );
  });

  it("is listed as soon as it is made, however far the watch is behind", async () => {
    world.cluster.watches.silence();
    const { name } = await created();
    assert.equal((await world.listed(name))?.state.phase, "starting");
    // The node hears nothing either.
    world.cluster.setPod(name, {}, fakeNode.name);
    world.kubelet.start(name);
    // The API is asked what has become of it.
    await world.clock.step(5_000);
    assert.equal((await world.listed(name))?.state.phase, "running");
  });

  it("is found if it was made and the answer got lost, and is the only one", async () => {
    world.cluster.failNext({ verb: "create", resource: "pods" }, "lost answer");
    const { name } = await created();
    assert.equal((await world.listed(name))?.state.phase, "running");
    assert.equal(world.cluster.all("Pod").length, 1);
  });

  it("is still to be made if it was not and there was no answer", async () => {
    world.cluster.failNext({ verb: "create", resource: "pods" }, "hang up");
    await assert.rejects(created(), refusal("retryable", /came to no answer, and it is not there/));
    await created();
  });

  it("may have been made where nobody can be asked", async () => {
    world.cluster.watches.silence();
    world.cluster.failNext({ verb: "create", resource: "pods" }, "lost answer");
    world.cluster.failNext({ verb: "get", resource: "pods" }, "hang up");
    await assert.rejects(created(), refusal("retryable", /creating the Pod of gitea-task-42/));
    await created();
    assert.equal(world.cluster.all("Pod").length, 1);
  });

  for (const [what, fault, kind, reason] of [
    [
      "waits where a quota is full",
      { status: 403, reason: "Forbidden", message: 'pods "x" is forbidden: exceeded quota: ci' },
      "retryable",
      "quota",
    ],
    [
      "is given up where it can never be",
      { status: 422, reason: "Invalid", message: "Pod is invalid" },
      "terminal",
      "config_error",
    ],
    ["waits where the server has enough to do", { status: 429 }, "retryable", undefined],
  ] as const)
    it(what, async () => {
      world.cluster.failNext({ verb: "create", resource: "pods" }, fault);
      await assert.rejects(created(), refusal(kind, /creating Pod gitea-task-42-1-/, reason));
    });

  it("is not made where a stranger's Pod has its name, which is left alone", async () => {
    const name = "gitea-task-42-1-00000000";
    world.cluster.put({ kind: "Pod", metadata: { name, namespace: "gitea-actions" }, spec: {} });
    await assert.rejects(created(), refusal("terminal", new RegExp(`Pod ${name} is not ours`)));
    for (const act of [
      () => world.backend.delete(name, signal),
      () => world.backend.kill(name, "mine", signal),
      () => world.backend.markTerminal(name, signal),
    ])
      await assert.rejects(act, refusal("terminal", /is not ours/));
    assert.deepEqual(await world.backend.list(signal), { executors: [], invalid: [] });
    assert.equal(world.cluster.get("Pod", name)?.metadata.deletionTimestamp, undefined);
  });

  it("is no executor of ours if another backend made it", async () => {
    const { name } = await created();
    world.cluster.edit("Pod", name, labelled({ "ci.ddupan.top/backend": "vm" }));
    await settle();
    assert.deepEqual(await world.backend.list(signal), { executors: [], invalid: [] });
    await assert.rejects(world.backend.delete(name, signal), refusal("terminal", /is not ours/));
  });
});

describe("a Pod that somebody else takes away", () => {
  it("has ended, and says why, until we delete it", async () => {
    const { name } = await created();
    world.kubelet.end(name, { reason: "OOMKilled", exitCode: 137 });
    world.cluster.remove("Pod", name);
    await settle();
    const { state } = (await world.listed(name)) ?? {};
    assert.deepEqual(state, {
      phase: "ended",
      cause: "oom",
      reason: "OOMKilled: exit code 137 (SIGKILL)",
    });
    await world.clock.step(3_600_000);
    assert.deepEqual((await world.listed(name))?.state, state);
    await world.backend.delete(name, signal);
    assert.equal(await world.listed(name), undefined);
  });

  it("has ended also if it was seen to run until then", async () => {
    const { name } = await created();
    world.cluster.remove("Pod", name);
    await settle();
    assert.deepEqual((await world.listed(name))?.state, {
      phase: "ended",
      cause: "killed",
      reason: "its Pod was deleted",
    });
  });

  it("has ended for the reason that stood on it, though the watch missed its end", async () => {
    const { name } = await created();
    const conditions = [{ type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI" }];
    world.cluster.setPod(name, { conditions });
    await settle();
    world.cluster.setAway(true);
    world.cluster.remove("Pod", name);
    world.cluster.compact();
    await world.clock.step(5_000);
    assert.equal((await world.listed(name))?.state.phase, "running");
    world.cluster.setAway(false);
    await world.clock.step(30_000);
    assert.deepEqual((await world.listed(name))?.state, {
      phase: "ended",
      cause: "evicted",
      reason: "EvictionByEvictionAPI",
    });
  });

  it("tells of it", async () => {
    const { name } = await created();
    const states: (string | undefined)[] = [];
    world.backend.onChange(() => {
      void world.listed(name).then((executor) => states.push(executor?.state.phase));
    });
    world.cluster.remove("Pod", name);
    await settle();
    assert.equal(states.at(-1), "ended");
  });

  it("is not made anew for the same attempt before it is deleted", async () => {
    const { name } = await created();
    world.cluster.remove("Pod", name);
    await settle();
    await assert.rejects(created(), refusal("retryable", /is gone: the attempt is lost/));
    await world.backend.delete(name, signal);
    assert.equal((await created()).name, name);
  });

  it("has not ended when only our label was taken away, and is left alone", async () => {
    const { name } = await created();
    world.cluster.edit("Pod", name, labelled({ [owner]: "somebody-else" }));
    await settle();
    assert.equal(await world.listed(name), undefined);
    assert.ok(world.log.lines.some(({ message }) => message.includes("lost its owner's label")));
    await assert.rejects(world.backend.delete(name, signal), refusal("terminal", /is not ours/));
    assert.deepEqual(await world.running(name), [name]);
  });

  it("is there again when the label is", async () => {
    const { name, metadata } = await created();
    world.cluster.edit("Pod", name, labelled({ [owner]: "somebody-else" }));
    world.cluster.edit("Pod", name, labelled({ [owner]: metadata.owner }));
    await settle();
    assert.equal((await world.listed(name))?.state.phase, "running");
    const calls = world.cluster.count({ verb: "get", resource: "pods" });
    await world.clock.step(60_000);
    assert.equal(world.cluster.count({ verb: "get", resource: "pods" }), calls);
    world.cluster.remove("Pod", name);
    await settle();
    assert.equal((await world.listed(name))?.state.phase, "ended");
  });

  it("has not ended either if the watch never knew of it", async () => {
    world.cluster.watches.silence();
    const { name } = await created();
    world.cluster.edit("Pod", name, labelled({ [owner]: "somebody-else" }));
    await world.clock.step(5_000);
    assert.equal(await world.listed(name), undefined);
  });

  it("is nothing any more if nobody can tell what it was", async () => {
    const { name } = await created();
    await world.spoil(name);
    world.cluster.remove("Pod", name);
    await settle();
    assert.deepEqual(await world.backend.list(signal), { executors: [], invalid: [] });
  });

  it("is listed as it was as long as the API cannot be asked whether it is gone", async () => {
    const { name } = await created();
    world.cluster.failNext({ verb: "get", resource: "pods" }, "hang up");
    world.cluster.remove("Pod", name);
    await settle();
    assert.equal((await world.listed(name))?.state.phase, "running");
    await world.clock.step(5_000);
    assert.equal((await world.listed(name))?.state.phase, "ended");
  });
});

describe("a kill of a Pod", () => {
  it("has its reason and the shortest deadline written in one call", async () => {
    const { name } = await created();
    await world.backend.kill(name, "silence", signal);
    const { metadata, spec } = world.cluster.get("Pod", name) ?? {};
    assert.equal(metadata?.annotations?.["ci.ddupan.top/killed-for"], "silence");
    assert.equal(spec?.["activeDeadlineSeconds"], 1);
    assert.equal(world.cluster.count({ verb: "patch", resource: "pods" }), 1);
    assert.equal(world.cluster.count({ verb: "delete", resource: "pods" }), 0);
  });

  it("leaves an end its own cause that came before, though the watch is behind", async () => {
    const { name } = await created();
    world.cluster.watches.silence();
    world.kubelet.end(name, { reason: "OOMKilled", exitCode: 137 });
    await world.backend.kill(name, "silence", signal);
    const { state } = (await world.listed(name)) ?? {};
    assert.ok(state?.phase === "ended");
    assert.equal(state.cause, "oom");
  });

  it("ends one that no node has by its removal, and remembers why", async () => {
    world.kubelet.schedules = false;
    const { name } = await created();
    await world.backend.kill(name, "its task was cancelled", signal);
    assert.equal(world.cluster.get("Pod", name), undefined);
    await settle();
    assert.deepEqual((await world.listed(name))?.state, {
      phase: "ended",
      reason: "its task was cancelled",
    });
    await world.backend.delete(name, signal);
    assert.equal(await world.listed(name), undefined);
  });

  it("waits for the node to obey, and says if it does not", async () => {
    const { name } = await created();
    world.kubelet.obeys = false;
    const killing = assert.rejects(
      world.backend.kill(name, "silence", signal),
      refusal("retryable", /was told to end, and still runs/),
    );
    await settle();
    assert.equal((await world.listed(name))?.state.phase, "running");
    await world.clock.step(90_000);
    await killing;
    // It was told, and is not told again because of its deadline.
    await world.clock.step(600_000);
    assert.equal(world.cluster.count({ verb: "patch", resource: "pods" }), 1);
    assert.ok(!world.log.lines.some(({ message }) => message.includes("past its deadline")));
  });

  it("is over when the Pod ends though the watch does not tell", async () => {
    const { name } = await created();
    world.kubelet.obeys = false;
    const killing = world.backend.kill(name, "silence", signal);
    await settle();
    world.cluster.watches.silence();
    world.kubelet.end(name, { reason: "Error", exitCode: 143 });
    await world.clock.step(5_000);
    await killing;
  });

  it("comes at the deadline also for one that no node has taken", async () => {
    world.kubelet.schedules = false;
    const request = { ...anExecutorRequest("pod"), deadlineAt: world.clock.now() + 60_000 };
    const { name } = await world.backend.create(request, signal);
    await world.clock.step(70_000);
    assert.equal((await world.listed(name))?.state.phase, "starting");
    await world.clock.step(20_000);
    assert.deepEqual((await world.listed(name))?.state, {
      phase: "ended",
      cause: "deadline",
      reason: "deadline",
    });
  });
});

describe("the deletion of a Pod", () => {
  it("takes the entry first", async () => {
    const executor = await created();
    await world.backend.bindIdentity(executor, signal);
    await world.backend.delete(executor.name, signal);
    const deleted = world.cluster.calls.filter(({ verb }) => verb === "delete");
    assert.deepEqual(
      deleted.map(({ resource }) => resource),
      ["clusterstaticentries", "pods"],
    );
  });

  it("is done though the entry cannot be removed, which is told", async () => {
    const executor = await created();
    await world.backend.bindIdentity(executor, signal);
    world.cluster.failNext({ verb: "delete", resource: "clusterstaticentries" }, { status: 403 });
    await assert.rejects(world.backend.delete(executor.name, signal), refusal("retryable", /deleting Pod/));
    assert.deepEqual(await world.remains(executor.name), [`ClusterStaticEntry ${executor.name}`]);
    await world.backend.delete(executor.name, signal);
    assert.deepEqual(await world.remains(executor.name), []);
  });

  it("gives a running one a short grace, and waits until it is gone", async () => {
    const { name } = await created();
    world.kubelet.obeys = false;
    let isDone = false;
    const deleting = world.backend.delete(name, signal).then(() => (isDone = true));
    await settle();
    assert.equal(world.cluster.get("Pod", name)?.metadata.deletionGracePeriodSeconds, 10);
    assert.equal((await world.listed(name))?.state.phase, "running");
    assert.equal(isDone, false);
    world.cluster.finishDeletion(name);
    await deleting;
    assert.equal(await world.listed(name), undefined);
  });

  it("is by force only when the node is no more", async () => {
    const { name } = await created();
    world.kubelet.obeys = false;
    const stop = new AbortController();
    const first = world.backend.delete(name, stop.signal).catch((error: unknown) => error);
    await settle();
    stop.abort(new Error("no answer in time"));
    assert.equal(await first, stop.signal.reason);
    const stuck = assert.rejects(
      world.backend.delete(name, signal),
      refusal("retryable", /was deleted, and is still there/),
    );
    await world.clock.step(60_000);
    await stuck;
    world.cluster.remove("Node", "node-1");
    await world.backend.delete(name, signal);
    assert.deepEqual(await world.remains(name), []);
  });

  it("does not touch another Pod that has come under its name meanwhile", async () => {
    const { name } = await created();
    const held = world.cluster.holdNext({ verb: "delete", resource: "pods" }, "before");
    const deleting = world.backend.delete(name, signal);
    await held.arrived;
    const { metadata, ...pod } = world.cluster.get("Pod", name) ?? assert.fail();
    world.cluster.remove("Pod", name);
    const { namespace = "", labels = {} } = metadata;
    const { uid } = world.cluster.put({ ...pod, metadata: { name, namespace, labels } }).metadata;
    held.release();
    await deleting;
    const there = world.cluster.get("Pod", name)?.metadata;
    assert.deepEqual([there?.uid, there?.deletionTimestamp], [uid, undefined]);
  });

  it("is over when the Pod is gone though the watch does not tell", async () => {
    const { name } = await created();
    world.cluster.watches.silence();
    world.kubelet.end(name, { reason: "Completed", exitCode: 0 });
    const deleting = world.backend.delete(name, signal);
    await world.clock.step(5_000);
    await deleting;
    assert.equal(await world.listed(name), undefined);
  });

  it("removes a Pod whose view is empty yet, after a restart", async () => {
    const executor = await created();
    await world.backend.bindIdentity(executor, signal);
    await (await world.restarted()).delete(executor.name, signal);
    assert.deepEqual(await world.remains(executor.name), []);
  });
});

describe("a Pod that does not start", () => {
  const pulling = (message: string) => ({
    containerStatuses: [{ name: "executor", state: { waiting: { reason: "ErrImagePull", message } } }],
  });

  it("is given its grace, and its failure is told when that is over, by time alone", async () => {
    world.kubelet.starts = false;
    const { name } = await created();
    world.cluster.setPod(name, pulling("registry.example.org/runner: not found"));
    await settle();
    const waiting = async () => {
      const { state } = (await world.listed(name)) ?? {};
      return state?.phase === "starting" ? state.waiting?.reason : state?.phase;
    };
    assert.equal(await waiting(), "too_slow");
    let told = 0;
    world.backend.onChange(() => told++);
    await world.clock.step(19_000);
    assert.deepEqual([told, await waiting()], [0, "too_slow"]);
    await world.clock.step(1_000);
    assert.deepEqual([told, await waiting()], [1, "image_missing"]);
    await world.clock.step(60_000);
    assert.equal(told, 1);
  });

  it("has its whole grace though the clock is set meanwhile", async () => {
    const clock = createFakeClock();
    let set = 0;
    await using own = await makePodWorld({ steady: () => clock.now() - set }, clock);
    own.kubelet.starts = false;
    const { name } = await own.backend.create(anExecutorRequest("pod"), signal);
    own.cluster.setPod(name, pulling("registry.example.org/runner: not found"));
    await settle();
    set = 3_600_000;
    await clock.step(set);
    const told = async () => {
      const state = (await own.listed(name))?.state;
      return state?.phase === "starting" ? state.waiting?.reason : undefined;
    };
    assert.equal(await told(), "too_slow");
    await clock.step(20_000);
    assert.equal(await told(), "image_missing");
  });

  it("tells what only its events say", async () => {
    world.kubelet.starts = false;
    const { name } = await created();
    const told: (string | undefined)[] = [];
    world.backend.onChange((which) => told.push(which));
    const { uid } = world.cluster.get("Pod", name)?.metadata ?? {};
    world.cluster.put({
      kind: "Event",
      metadata: { name: `${name}.1`, namespace: "gitea-actions" },
      involvedObject: { kind: "Pod", namespace: "gitea-actions", name, uid },
      reason: "FailedCreatePodSandBox",
      message: "failed to reserve sandbox name",
      lastTimestamp: "2026-01-01T00:00:00Z",
    });
    await settle();
    const { state } = (await world.listed(name)) ?? {};
    assert.ok(state?.phase === "starting");
    assert.match(state.waiting?.evidence ?? "", /failed to reserve sandbox name/);
    assert.deepEqual(told, [name]);
  });
});

describe("what the Pod backend lists", () => {
  it("is what it last heard, for two minutes; then it is nothing", async () => {
    const { name } = await created();
    world.cluster.setAway(true);
    await world.clock.step(119_000);
    assert.equal((await world.listed(name))?.state.phase, "running");
    await world.clock.step(2_000);
    await assert.rejects(world.backend.list(signal), refusal("retryable", /listing Pods/));
    assert.ok((world.backend.viewAgeMs() ?? 0) > 120_000);
    world.cluster.setAway(false);
    assert.equal((await world.listed(name))?.state.phase, "running");
    await world.clock.step(30_000);
    // A server tells nobody how far it is where nothing has happened.
    world.cluster.put({ kind: "Node", metadata: { name: "another" } });
    world.cluster.sendBookmarks();
    await settle();
    assert.equal(world.backend.viewAgeMs(), 0);
  });

  it("is read anew where the watch says nothing any more", async () => {
    const { name } = await created();
    const { name: other } = await created({ attempt: anAttempt({ number: 2 }) });
    world.cluster.watches.silence();
    world.kubelet.end(name, { reason: "Error", exitCode: 1 });
    world.cluster.remove("Pod", other);
    await world.clock.step(121_000);
    assert.equal((await world.listed(name))?.state.phase, "ended");
    await settle();
    assert.equal((await world.listed(other))?.state.phase, "ended");
  });

  it("is read from the API before anything is watched, or is nothing", async () => {
    const { name } = await created();
    const idle = world.unwatched();
    assert.deepEqual(
      (await idle.list(signal)).executors.map((executor) => executor.name),
      [name],
    );
    world.cluster.setAway(true);
    await assert.rejects(idle.list(signal), refusal("retryable", /listing Pods/));
  });
});

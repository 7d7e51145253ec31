import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { abortable } from "../../controller/platform/signal.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { type CoreUnderTest, createCoreUnderTest } from "../support/core-under-test.ts";
import { makePodWorld, type PodWorld } from "./backends/pod/pod-world.ts";

const never = new AbortController().signal;

describe("the core over a cluster", () => {
  let world: PodWorld;
  let one: CoreUnderTest;
  let stop: () => Promise<void>;
  let job: ReturnType<CoreUnderTest["model"]["addJob"]>;

  beforeEach(async () => {
    world = await makePodWorld();
    const { backend } = world;
    // The world looks after it.
    const run = (signal: AbortSignal) => abortable(new Promise<never>(() => undefined), signal);
    const pods = { backend, run, viewAgeMs: () => backend.viewAgeMs() };
    one = createCoreUnderTest(
      { backends: [{ ...pods, capacity: 1, backlog: 1, timeoutMs: 14_400_000 }] },
      world.clock,
    );
    await one.core.recover(never);
    job = one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    const stopping = new AbortController();
    const running = runTasks([...one.core.leaderTasks, ...one.core.relayTasks], stopping.signal);
    stop = async () => {
      stopping.abort(new Error("the test is over"));
      await running;
    };
  });
  afterEach(async () => {
    await stop();
    await world[Symbol.asyncDispose]();
  });

  function current() {
    const record = one.core.assignments.all()[0]?.record ?? assert.fail("no assignment");
    const attempt = currentAttempt(record) ?? assert.fail("no attempt");
    const { assignment } = record;
    return { name: executorName(assignment, attempt), assignment, attempt };
  }

  async function claimed() {
    await world.clock.step(2_000);
    const { name, assignment, attempt } = current();
    const client = one.client({ assignment, attempt, peer: assignment.spiffeId });
    const { task } = await client.fetchTask({});
    const id = task?.id ?? assert.fail("no task");
    await client.updateTask({ state: { id } });
    return { name, client, id };
  }

  /** Other than to watch. */
  const calls = () =>
    world.cluster.calls
      .filter(({ verb }) => verb !== "list" && verb !== "watch")
      .map(({ verb, resource }) => `${verb} ${resource}`);

  it("takes a job through its Pod with the fewest calls, and leaves nothing", async () => {
    const { name, client, id } = await claimed();
    assert.deepEqual(await world.remains(name), [`Pod ${name}`, `ClusterStaticEntry ${name}`]);
    await client.updateTask({ state: { id, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
    await world.end(name);
    await world.clock.step(120_000);
    assert.deepEqual(one.core.assignments.all(), []);
    assert.deepEqual(await world.remains(name), []);
    assert.deepEqual(calls(), [
      "create pods",
      "get nodes",
      "create clusterstaticentries",
      "patch pods",
      "delete clusterstaticentries",
      "delete pods",
    ]);
    // Nothing is written while nothing is done.
    await world.clock.step(600_000);
    assert.equal(calls().length, 6);
  });

  it("fails a job whose image is not there as soon as patience with it is over", async () => {
    world.kubelet.starts = false;
    await world.clock.step(2_000);
    const { name } = current();
    const waiting = { reason: "ImagePullBackOff", message: "registry.example.org/runner: not found" };
    world.cluster.setPod(name, { containerStatuses: [{ name: "executor", state: { waiting } }] });
    await world.clock.step(19_000);
    assert.equal(one.core.figures.failures()["image_missing"], 0);
    await world.clock.step(30_000);
    assert.equal(one.core.figures.failures()["image_missing"], 1);
    assert.equal(one.model.shown(job).job, "failure");
    await world.clock.step(120_000);
    assert.deepEqual(await world.remains(name), []);
  });

  it("fails a job whose Pod is evicted, with that reason", async () => {
    const { name } = await claimed();
    world.cluster.setPod(name, {
      conditions: [{ type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI" }],
    });
    world.cluster.remove("Pod", name);
    await world.clock.step(30_000);
    assert.equal(one.core.figures.failures()["evicted"], 1);
    assert.equal(one.model.shown(job).job, "failure");
    await world.clock.step(120_000);
    assert.deepEqual(one.core.assignments.all(), []);
    assert.deepEqual(await world.remains(name), []);
  });

  it("gives a job whose Pod dies before the claim another one", async () => {
    await world.clock.step(2_000);
    const { name: first } = current();
    world.cluster.remove("Pod", first);
    await world.clock.step(60_000);
    const { name: second } = current();
    assert.notEqual(second, first);
    assert.deepEqual(await world.remains(first), []);
    assert.deepEqual(await world.running(second), [second]);
  });

  it("loses no job when the API server is away for five minutes", async () => {
    const { name, client, id } = await claimed();
    world.cluster.setAway(true);
    for (let minute = 0; minute < 5; minute++) {
      await world.clock.step(60_000);
      await client.updateTask({ state: { id } });
    }
    const view = one.core.well.find((check) => check.name === "pod view");
    assert.match(view?.problem() ?? "", /heard of no changes for 3\d\d s/);
    world.cluster.setAway(false);
    await world.clock.step(60_000);
    assert.equal((await world.listed(name))?.state.phase, "running");
    await client.updateTask({ state: { id, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
    await world.end(name);
    await world.clock.step(120_000);
    assert.deepEqual(await world.remains(name), []);
  });
});

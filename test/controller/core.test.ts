import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { anAssignment, aRecord } from "../support/builders.ts";
import { type CoreUnderTest, createCoreUnderTest } from "../support/core-under-test.ts";

const never = new AbortController().signal;

describe("the core between fakes", () => {
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  function run(tasks: CoreUnderTest["core"]["leaderTasks"]): () => Promise<void> {
    const stopping = new AbortController();
    const running = runTasks(tasks, stopping.signal);
    const stop = async () => {
      stopping.abort(new Error("the test is over"));
      await running;
    };
    stops.push(stop);
    return stop;
  }

  function places({ core }: CoreUnderTest) {
    return core.figures.backends().flatMap(({ backend, used, capacity }) => [backend, used, capacity]);
  }

  /** The job's executor is there and waits for its task. */
  async function started(one: CoreUnderTest) {
    await one.core.recover(never);
    const job = one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    const stop = run([...one.core.leaderTasks, ...one.core.relayTasks]);
    await one.clock.step(2_000);
    const record = one.core.assignments.all()[0]?.record;
    assert.ok(record !== undefined, "no assignment");
    const attempt = currentAttempt(record);
    assert.ok(attempt !== undefined, "no attempt");
    const { assignment } = record;
    return { job, stop, client: one.client({ assignment, attempt, peer: assignment.spiffeId }) };
  }

  it("takes a job from Gitea to its executor, and its result back, and forgets it", async () => {
    const one = createCoreUnderTest();
    const { job, client, stop } = await started(one);
    assert.deepEqual(places(one), ["pod", 1, 1]);
    const { task } = await client.fetchTask({});
    assert.ok(task !== undefined);
    await client.updateTask({ state: { id: task.id } });
    await client.updateTask({ state: { id: task.id, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
    await one.clock.step(120_000);
    assert.deepEqual(one.core.assignments.all(), []);
    assert.deepEqual([one.queue.size, one.store.stored.size, one.backend.world.stored.size], [0, 0, 0]);
    assert.deepEqual(places(one), ["pod", 0, 1]);
    await stop();
    assert.deepEqual(one.clock.pending(), [], "something still waits");
  });

  for (const canHear of [true, false])
    it(`blames an executor's silence on ${canHear ? "it" : "nobody while the facade itself cannot be reached"}`, async () => {
      const one = createCoreUnderTest({ canHear: () => canHear });
      const { client } = await started(one);
      const { task } = await client.fetchTask({});
      await client.updateTask({ state: { id: task?.id ?? 0n } });
      await one.clock.step(10 * 60_000);
      assert.deepEqual(
        one.core.assignments.all().map(({ record }) => record.phase.name),
        canHear ? [] : ["claimed"],
      );
      assert.equal(one.core.figures.failures()["silent"], canHear ? 1 : 0);
    });

  it("does nothing before it is told to", async () => {
    const one = createCoreUnderTest();
    one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    await one.clock.step(60_000);
    assert.deepEqual([one.clock.pending(), one.log.lines, one.model.tasks.size], [[], [], 0]);
  });

  it("tells of assignments whose backend COMPONENTS does not select, as long as there are any", async () => {
    const one = createCoreUnderTest();
    const problems = () => one.core.well.flatMap((check) => check.problem() ?? []);
    one.store.overwrite(aRecord({ assignment: anAssignment({ backend: "vm" }) }));
    await one.core.recover(never);
    assert.match(problems().join(), /^COMPONENTS lacks it, and 1 assignments of it are live/);
    const told = one.log.lines.find(({ message }) => message.endsWith("COMPONENTS does not select"));
    assert.deepEqual([told?.level, told?.fields["backend"], told?.fields["live"]], ["warn", "vm", 1]);
    await one.core.assignments.remove(anAssignment().id, never);
    assert.deepEqual(problems(), []);
  });

  it("goes on to speak for unclaimed tasks, and to serve their executors, when its leader's work has ended", async () => {
    const one = createCoreUnderTest();
    const { stop, job, client } = await started(one);
    await stop();
    run(one.core.relayTasks);
    one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    const before = one.updates();
    await one.clock.step(60_000);
    assert.ok(one.updates() >= before + 4, `${one.updates() - before} beats in a minute`);
    assert.equal(one.model.tasks.size, 1, "another task was fetched");
    const { task } = await client.fetchTask({});
    await client.updateTask({ state: { id: task?.id ?? 0n, result: Result.SUCCESS } });
    assert.equal(one.model.shown(job).job, "success");
  });
});

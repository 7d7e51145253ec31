import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { createRecordStore } from "../../controller/record/record-store.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeKeyValue } from "../fakes/fake-key-value.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { createCoreUnderTest } from "../support/core-under-test.ts";

const never = new AbortController().signal;

describe("I10 a bucket that lost its newest writes in a power failure", () => {
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  function setUp() {
    const bucket = createFakeKeyValue();
    const records = createRecordStore({ bucket, writerId: "this controller", log: createRecordingLogger() });
    const one = createCoreUnderTest({ records });
    const stopping = new AbortController();
    const run = async () => {
      await one.core.recover(never);
      const running = runTasks([...one.core.leaderTasks, ...one.core.relayTasks], stopping.signal);
      stops.push(async () => {
        stopping.abort(new Error("the test is over"));
        await running;
      });
    };
    const known = () => {
      const record = one.core.assignments.all()[0]?.record;
      assert.ok(record !== undefined, "no assignment");
      const attempt = currentAttempt(record);
      assert.ok(attempt !== undefined, `no attempt: ${record.phase.name}`);
      return { record, attempt, assignment: record.assignment };
    };
    const client = () => {
      const { assignment, attempt } = known();
      return one.client({ assignment, attempt, peer: assignment.spiffeId });
    };
    const executors = () => [...one.backend.world.stored.keys()];
    return { ...one, bucket, run, known, client, executors };
  }

  /** The second executor of the job has claimed it, and the bucket knows of the first one only. */
  async function setBack() {
    const one = setUp();
    const job = one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    await one.run();
    await one.clock.step(2_000);
    const early = one.bucket.revision;
    one.backend.end(one.executors()[0] ?? "", "exit code 1");
    await one.clock.step(2 * defaultTimes.attemptDelayMs);
    assert.equal(one.known().attempt.number, 2);
    const client = one.client();
    const { task } = await client.fetchTask({});
    const state = { id: task?.id ?? 0n };
    await client.updateTask({ state });
    one.bucket.setBack(early);
    return { ...one, job, client, state };
  }

  it("costs no job that runs", async () => {
    const { model, client, state, job, clock, executors } = await setBack();
    const steps = [{ id: 0n, startedAt: { seconds: 1n, nanos: 0 } }];
    await client.updateTask({ state: { ...state, steps } });
    await clock.step(20_000);
    await client.updateTask({ state: { ...state, steps } });
    assert.equal(executors().length, 1);
    await client.updateTask({ state: { ...state, result: Result.SUCCESS } });
    assert.equal(model.shown(job).job, "success");
  });

  it("gets them anew from memory, also for a job that nothing changes", async () => {
    const { clock, bucket, known } = await setBack();
    await clock.step(defaultTimes.compareStreamMs);
    const next = createRecordStore({ bucket, writerId: "the next one", log: createRecordingLogger() });
    const { records } = await next.list(never);
    assert.deepEqual(
      records.map(({ record }) => record),
      [known().record],
    );
    const { revision } = bucket;
    await clock.step(defaultTimes.compareStreamMs);
    assert.equal(bucket.revision, revision, "it is written again and again");
  });
});

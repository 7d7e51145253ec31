import assert from "node:assert/strict";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, describe, it } from "mocha";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { signCapability } from "../../controller/identity/capability.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { createCoreUnderTest } from "../support/core-under-test.ts";
import { testKeyRing } from "../support/jetstream.ts";

const never = new AbortController().signal;

describe("a controller with the wrong keys", () => {
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  /** A job that runs, and the calls of its executor with a capability that no key verifies. */
  async function running() {
    const one = createCoreUnderTest();
    await one.core.recover(never);
    one.model.addJob({ runsOn: ["self-hosted", "pod"] });
    const stopping = new AbortController();
    const tasks = runTasks([...one.core.leaderTasks, ...one.core.relayTasks], stopping.signal);
    stops.push(async () => {
      stopping.abort(new Error("the test is over"));
      await tasks;
    });
    await one.clock.step(2_000);
    const record = one.core.assignments.all()[0]?.record;
    const attempt = record === undefined ? undefined : currentAttempt(record);
    assert.ok(record !== undefined && attempt !== undefined);
    const { assignment } = record;
    const { id, taskId, spiffeId } = assignment;
    await one.client({ assignment, attempt, peer: spiffeId }).updateTask({ state: { id: taskId } });
    const capability = signCapability(testKeyRing(2), { assignmentId: id, spiffeId, attempt });
    /** For as long as nobody may be silent. */
    const call = async (peer: string) => {
      const client = one.client({ assignment, peer, capability });
      for (let ms = 0; ms < 2 * defaultTimes.silenceMs; ms += 10_000) {
        await assert.rejects(
          client.updateTask({ state: { id: taskId } }),
          (error) => ConnectError.from(error).code === Code.PermissionDenied,
        );
        await one.clock.step(10_000);
      }
    };
    const phases = () => one.core.assignments.all().map(({ record: { phase } }) => phase.name);
    return { call, phases, spiffeId };
  }

  it("takes no executor for silent that calls with its job's SVID", async () => {
    const { call, phases, spiffeId } = await running();
    await call(spiffeId);
    assert.deepEqual(phases(), ["claimed"]);
  });

  it("takes one for silent that only another job calls for", async () => {
    const { call, phases, spiffeId } = await running();
    await call(`${spiffeId}-of-another-job`);
    assert.deepEqual(phases(), []);
  });
});

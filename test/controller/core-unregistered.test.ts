import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { GiteaError } from "../../controller/protocol/errors.ts";
import { createGiteaModel } from "../fakes/fake-gitea-model.ts";
import { type CoreUnderTest, createCoreUnderTest, registeredAt } from "../support/core-under-test.ts";

const never = new AbortController().signal;
const minute = 60_000;

describe("a runner that Gitea does not know any more", () => {
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  /** One job runs, and the others wait. */
  async function running(jobs = 2) {
    const model = createGiteaModel(() => one.clock.now());
    const gitea = registeredAt(model);
    const registration = { known: true, taskCallsFail: false };
    const asked = async <T>(call: () => Promise<T>): Promise<T> => {
      if (!registration.known) throw new GiteaError("unregistered", "unregistered runner");
      return call();
    };
    const askedOfTask = async <T>(call: () => Promise<T>): Promise<T> => {
      if (registration.taskCallsFail) throw new GiteaError("transient", "bad gateway");
      return asked(call);
    };
    const one: CoreUnderTest = createCoreUnderTest({
      gitea: {
        declare: (...call) => asked(() => gitea.declare(...call)),
        fetchTask: (...call) => asked(() => gitea.fetchTask(...call)),
        updateTask: (...call) => askedOfTask(() => gitea.updateTask(...call)),
        updateLog: (...call) => askedOfTask(() => gitea.updateLog(...call)),
      },
    });
    await one.core.recover(never);
    for (let job = 0; job < jobs; job++) model.addJob({ runsOn: ["self-hosted", "pod"] });
    const stopping = new AbortController();
    const tasks = runTasks([...one.core.leaderTasks, ...one.core.relayTasks], stopping.signal);
    stops.push(async () => {
      stopping.abort(new Error("the test is over"));
      await tasks;
    });
    await one.clock.step(5_000);
    const record = one.core.assignments
      .all()
      .find(({ record: { phase } }) => phase.name === "starting")?.record;
    const attempt = record === undefined ? undefined : currentAttempt(record);
    assert.ok(record !== undefined && attempt !== undefined);
    const { assignment } = record;
    const client = one.client({ assignment, attempt, peer: assignment.spiffeId });
    const state = { id: assignment.taskId };
    await client.updateTask({ state });
    /** With the executor's beats. */
    const pass = async (ms: number) => {
      for (let gone = 0; gone < ms; gone += 10_000) {
        await one.clock.step(10_000);
        await client.updateTask({ state }).catch(() => undefined);
      }
    };
    const living = () =>
      [...one.backend.world.stored.values()].filter(({ state: { phase } }) => phase !== "ended");
    const phases = () => one.core.assignments.all().map(({ record: { phase } }) => phase.name);
    return { ...one, registration, pass, living, phases };
  }

  it("lets its executors go on for ten minutes, then ends them and says why", async () => {
    const { registration, pass, living, phases, core, log } = await running();
    registration.known = false;
    await pass(9 * minute);
    assert.equal(living().length, 1);
    assert.deepEqual(phases(), ["claimed", "queued"]);
    await pass(3 * minute);
    assert.equal(living().length, 0);
    assert.deepEqual(phases(), ["ending", "ending"]);
    assert.equal(core.figures.failures()["unregistered"], 2);
    assert.ok(log.lines.some(({ fields }) => String(fields["reason"]).startsWith("unregistered")));
  });

  it("is told of by the calls for new tasks as well, where no others are answered", async () => {
    const { registration, pass, phases } = await running(1);
    Object.assign(registration, { known: false, taskCallsFail: true });
    await pass(9 * minute);
    assert.deepEqual(phases(), ["claimed"]);
    await pass(3 * minute);
    assert.deepEqual(phases(), ["ending"]);
  });

  it("fails nothing when Gitea knows it again by then, also for a while only", async () => {
    const { registration, pass, phases } = await running();
    registration.known = false;
    await pass(9 * minute);
    registration.known = true;
    await pass(minute);
    registration.known = false;
    await pass(9 * minute);
    assert.deepEqual(phases(), ["claimed", "queued"]);
  });
});

import assert from "node:assert/strict";
import { before, describe, it } from "mocha";
import type { Plan } from "./plan.ts";
import { jobOf, minutes, planOf, push, seconds } from "./scenario.ts";
import { simulate } from "./simulate.ts";
import { createWorld, type World } from "./world.ts";

/** One job, whose first step does something that may be done once only. */
const plan: Plan = planOf([
  push(0, 1 * seconds, { steps: [1, 2].map((rows) => ({ ms: 10 * seconds, rows })) }),
]);

describe("a job's first step runs at most once, whatever becomes of the leader between fetch and first report", () => {
  let from = 0;
  let to = 0;
  before(async () => {
    const { world } = await simulate(plan);
    from = world.moments.eventsAt("fetched", 0) ?? 0;
    to = (world.moments.eventsAt("ran", 0) ?? 0) + 40;
    assert.ok(to - from > 60, `${to - from} events`);
  });

  /** Does this at each event in turn, or at each second one. */
  const sweep = async (by: (world: World) => void, every: 1 | 2 = 2) => {
    for (let afterEvents = from; afterEvents <= to; afterEvents += every) {
      const run = await simulate(plan, { interrupt: { afterEvents, by } });
      const { runs, storedAt, job } = jobOf(run, 0);
      const at = `${afterEvents - from} events after the fetch`;
      assert.equal(run.violated, undefined, at);
      assert.ok(runs.length <= 1, at);
      // Only a task that was not stored is lost with its fetcher.
      assert.equal(job.over, storedAt === undefined ? "failure" : "success", at);
    }
  };

  it("when it is killed", async () => {
    await sweep(({ leadership }) => leadership.crash(0), 1);
  });

  it("when it is stopped in order", async () => {
    await sweep(({ leadership }) => leadership.upgrade());
  });

  it("when it stands still, and wakes up while another one leads", async () => {
    await sweep(({ leadership }) => leadership.pause(20 * seconds, 300));
  });

  it("when it loses the Lease", async () => {
    await sweep(({ leadership }) => leadership.loseLease(5 * seconds));
  });
});

describe("a controller that has nothing to do", () => {
  it("I9 writes nothing anywhere: it reads, and asks for tasks about once a second", async () => {
    const { clock, effects, gitea } = createWorld({ ...planOf([]), keepHistory: false });
    await clock.run(clock.now() + 1 * minutes);
    const [idle, fetches] = [new Map(effects), gitea.calls.get("FetchTask") ?? 0];
    await clock.run(clock.now() + 10 * minutes);
    assert.deepEqual(effects, idle);
    const more = (gitea.calls.get("FetchTask") ?? 0) - fetches;
    assert.ok(more > 500 && more < 700, `${more} fetches in 10 min`);
    assert.equal(gitea.calls.get("UpdateTask"), undefined);
  });
});

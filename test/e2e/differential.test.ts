import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { logIn } from "../../scripts/peers/gitea-api/web-session.ts";
import { preparePeer } from "../../scripts/peers/prepare-peer.ts";
import type { ServerProcess } from "../../scripts/peers/server-process.ts";
import { comparable, firstDifference } from "../support/compare-workload.ts";
import { eventually } from "../support/eventually.ts";
import { findProcesses } from "../support/find-processes.ts";
import { createLane } from "../support/lane.ts";
import { missingTools, skipFor } from "../support/needs-tools.ts";
import { startOfficialRunner } from "../support/official-runner.ts";
import { usePlatform } from "../support/platform.ts";
import { createRunBoard } from "../support/run-board.ts";
import { type Outcome, runWorkload } from "../support/run-workload.ts";
import type { Workload } from "../support/workload.ts";
import { workloads } from "./workloads/all.ts";
import { type Difference, differences } from "./workloads/differences.ts";

/** All of them side by side; the longest waits for a minute, a busy machine multiplies the rest. */
const allMs = 600_000;
const capacity = 4;
/** How the processes of the workload `background` call themselves. */
const leftBehind = "left-behind-by-";

type Both = { readonly ours: Outcome; readonly official: Outcome };

describe("what people do in workflows, with us and with the official gitea-runner", function () {
  this.timeout(allMs);
  const real = usePlatform({ controller: { POD_CAPACITY: String(capacity) } });
  const outcomes = new Map<string, Promise<Both>>();
  let official: ServerProcess | undefined;
  /** Those that an earlier test left, if it was killed. */
  const olderProcesses = findProcesses(leftBehind).map(({ pid }) => pid);
  const leftBy = (place: "ours" | "official") =>
    findProcesses(`${leftBehind}${place}-`).filter(({ pid }) => !olderProcesses.includes(pid));

  before("push all of them to both", async function () {
    const signal = AbortSignal.timeout(allMs);
    const { admin, gitea, folder } = real.platform;
    const peer = await preparePeer("gitea-runner", {}, signal);
    const place = { gitea, peer, folder: path.join(folder, "official"), label: "official", capacity };
    official = await startOfficialRunner(place, signal);
    const session = await logIn(admin, signal);
    const board = createRunBoard(admin);
    const at = (name: string, runsOn: string) => {
      const here = { name, runsOn, admin, session, board, making: createLane() };
      return (workload: Workload) => runWorkload(here, workload, signal);
    };
    const [byUs, byOfficial] = [at("ours", "[self-hosted, pod]"), at("official", "official")];
    for (const workload of workloads) {
      if ((await missingTools(workload.tools ?? [])).length > 0) continue;
      const both = Promise.all([byUs(workload), byOfficial(workload)]);
      const outcome = both.then(([ours, theirs]) => ({ ours, official: theirs }));
      // Each test looks at its own.
      outcome.catch(() => undefined);
      outcomes.set(workload.name, outcome);
    }
  });
  after("stop the official runner", async () => {
    await official?.stop();
    // What its jobs left running goes on without it.
    for (const { pid } of leftBy("official")) process.kill(pid, "SIGKILL");
  });

  const both = async (context: Mocha.Context, workload: Workload): Promise<Both> => {
    const missing = await missingTools(workload.tools ?? []);
    if (missing.length > 0)
      skipFor(context, `${workload.name}: no ${missing.join(", ")} in the system's PATH`);
    const outcome = outcomes.get(workload.name);
    assert.ok(outcome !== undefined, `${workload.name} was not started`);
    return await outcome;
  };

  for (const workload of workloads) {
    it(`${workload.title}: as it has to be, and the same in Gitea whoever runs it`, async function () {
      const { ours, official: theirs } = await both(this, workload);
      await workload.check(theirs.seen, theirs.hand);
      await workload.check(ours.seen, ours.hand);

      const own = differences.filter(
        ({ workloads: where }) => where === undefined || where.includes(workload.name),
      );
      const compare = (hidden: readonly Difference[]) => {
        const [a, b] = [comparable(ours.seen, "ours"), comparable(theirs.seen, "official")].map((seen) =>
          hidden.reduce((rest, { hide }) => hide(rest), seen),
        );
        return firstDifference(a, b);
      };
      assert.equal(compare(own), undefined);
      for (const difference of own)
        assert.notEqual(
          compare(own.filter((each) => each !== difference)),
          undefined,
          `this is no difference any more, strike it off the list: ${difference.what}`,
        );
    });
  }

  it("what a job leaves running is ended with its executor, where the official daemon lets it run", async function () {
    const workload = workloads.find(({ name }) => name === "background");
    assert.ok(workload !== undefined);
    await both(this, workload);
    await eventually("the end of what our job left running", () => leftBy("ours").length === 0);
    assert.equal(leftBy("official").length, 1);
  });
});

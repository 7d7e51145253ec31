import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  afterAnswer,
  type Answer,
  type Around,
  type Life,
} from "../../../../controller/backends/vm/vm-life.ts";
import type { SandboxState } from "../../../../controller/opensandbox/opensandbox-api.ts";

const times = { createWindowMs: 90_000, lagMs: 10_000 };
const missing: Answer = { kind: "missing" };

function says(state: SandboxState, isAllocated = true): Answer {
  return { kind: "there", state, words: `${state} WORDS`, isAllocated };
}

/** What is known after these answers, one each 6 s, of a sandbox that was asked for at 0. */
function after(answers: readonly Answer[], around: Partial<Around> = {}, everyMs = 6_000): Life {
  let life: Life | undefined;
  for (const [index, answer] of answers.entries()) {
    const now = index * everyMs;
    life = afterAnswer(life, answer, { now, ageMs: now, isPastDeadline: false, ...around }, times);
  }
  assert.ok(life !== undefined);
  return life;
}

const waits = says("pending", false);
const booting = says("pending");
const runs = says("running");
const old = { ageMs: times.createWindowMs };

describe("what is known of a VM", () => {
  const cases: readonly (readonly [
    what: string,
    answers: readonly Answer[],
    state: Life["state"],
    around?: Partial<Around>,
  ])[] = [
    ["starts while the server still waits for it", [waits, booting, booting, booting], { phase: "starting" }],
    ["runs", [waits, runs], { phase: "running" }],
    ["runs when it has an address and is not ready", [says("allocated")], { phase: "running" }],
    ["runs on while one answer says otherwise", [runs, booting], { phase: "running" }],
    ["runs on while two answers say otherwise", [runs, booting, booting], { phase: "running" }],
    [
      "runs on after answers that were old",
      [runs, booting, booting, runs, booting, booting],
      { phase: "running" },
    ],
    [
      "has ended when it is pending again",
      [runs, booting, booting, booting],
      { phase: "ended", reason: "its VM has ended or was lost (pending WORDS)" },
    ],
    [
      "has ended when it is pending and too old to start, though nobody here has seen it run",
      [booting, booting, booting],
      { phase: "ended", reason: "its VM has ended or was lost (pending WORDS)" },
      old,
    ],
    [
      "has never had a VM when it is pending without a place for too long",
      [waits, waits, waits],
      { phase: "ended", cause: "no_vm", reason: "it has got no VM (pending WORDS)" },
      old,
    ],
    ["is not ended by its age alone", [waits, waits], { phase: "starting" }, old],
    ["runs again after all", [runs, booting, booting, booting, runs], { phase: "running" }],
    ["has ended when it failed", [runs, says("failed")], { phase: "ended", reason: "failed WORDS" }],
    [
      "goes on running while it is being deleted",
      [runs, says("stopping"), says("stopping")],
      { phase: "running" },
    ],
    ["may run if it is being deleted when it is first seen", [says("stopping", false)], { phase: "running" }],
    ["starts on while it is being deleted", [waits, says("stopping")], { phase: "starting" }],
    ["is as it was after a word that nobody knows", [runs, says("other")], { phase: "running" }],
    ["starts if that word is the first", [says("other")], { phase: "starting" }],
    ["runs on while two answers lack it", [runs, missing, missing], { phase: "running" }],
    [
      "runs on when one answer between shows it",
      [runs, missing, missing, runs, missing],
      { phase: "running" },
    ],
    [
      "does not count what is missing and what is pending together",
      [runs, booting, missing, booting, missing],
      { phase: "running" },
    ],
    [
      "is gone when three answers lack it",
      [runs, missing, missing, missing],
      { phase: "ended", cause: "vanished", reason: "its sandbox is gone, and we have not deleted it" },
    ],
    [
      "was killed when its deletion was seen, and nobody of us has asked for that",
      [runs, says("stopping"), missing, missing, missing],
      { phase: "ended", cause: "killed", reason: "its sandbox is gone, and we have not deleted it" },
    ],
    [
      "is gone by its deadline",
      [runs, missing, missing, missing],
      { phase: "ended", cause: "deadline", reason: "its time was over" },
      { isPastDeadline: true },
    ],
    [
      "is gone by us, with the reason that stands on it",
      [runs, says("stopping"), missing, missing, missing],
      { phase: "ended", reason: "no-claim-in-time" },
      { killedFor: "no-claim-in-time", isPastDeadline: true },
    ],
    [
      "was taken back when it is gone before it ran",
      [waits, missing, missing, missing],
      { phase: "ended", cause: "no_vm", reason: "it was taken back before it had a VM" },
    ],
    [
      "keeps its first end when it is gone",
      [runs, says("failed"), missing, missing, missing],
      { phase: "ended", reason: "failed WORDS" },
    ],
    [
      "runs again when it is there after all: another server may have answered",
      [runs, missing, missing, missing, runs],
      { phase: "running" },
    ],
  ];
  for (const [what, answers, state, around] of cases)
    it(`${what}: ${answers.map((answer) => (answer.kind === "missing" ? "missing" : answer.state)).join(", ")}`, () => {
      assert.deepEqual(after(answers, around).state, state);
    });

  it("is not decided by many answers in a short time: the server's own view may be behind", () => {
    for (const answer of [booting, missing]) {
      const many = [runs, ...Array.from({ length: 50 }, () => answer)];
      assert.equal(after(many, {}, times.lagMs / 50).state.phase, "running");
      assert.equal(after(many, {}, times.lagMs / 48).state.phase, "ended");
    }
  });

  it("is not decided by two answers that lie far apart", () => {
    assert.equal(after([runs, missing, missing], {}, 10 * times.lagMs).state.phase, "running");
  });
});

import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { backendChecks, type BackendState } from "../../../controller/health/backend-checks.ts";

const fine: BackendState = {
  backend: "pod",
  used: 4,
  capacity: 4,
  waitingMs: 3_600_000,
  circuit: undefined,
  silentMs: 5_000,
  viewAgeMs: 5_000,
  lingering: 0,
  invalid: 0,
};

function problems(...states: readonly BackendState[]): readonly string[] {
  return backendChecks(
    states.map(({ backend }) => backend),
    () => states,
  ).flatMap((check) => {
    const problem = check.problem();
    return problem === undefined ? [] : [`${check.name}: ${problem}`];
  });
}

describe("health of a backend", () => {
  it("is good while it is full and much waits, and before its executors were to be listed", () => {
    assert.deepEqual(problems(fine), []);
    assert.deepEqual(problems({ ...fine, silentMs: undefined }), []);
  });

  for (const [what, state, line] of [
    [
      "an open circuit",
      { circuit: "nothing is created, it fails" },
      "pod circuit: nothing is created, it fails",
    ],
    [
      "a watch that hears nothing",
      { viewAgeMs: 121_000 },
      "pod view: it has heard of no changes for 121 s: is its API there, and may we read it?",
    ],
    ["no list for a minute", { silentMs: 61_000 }, "pod backend: its executors could not be listed for 61 s"],
    [
      "executors that linger",
      { lingering: 2 },
      "pod executors: 2 should be gone for long: the log names them",
    ],
    [
      "executors that cannot be read",
      { invalid: 1 },
      "pod executors: 1 have metadata that cannot be read, and take places: the log names them",
    ],
  ] as const)
    it(`is bad with ${what}, and only this one's`, () => {
      assert.deepEqual(problems({ ...fine, ...state }, { ...fine, backend: "vm" }), [line]);
    });
});

import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { describe, it } from "mocha";
import { stepRecords, wireSteps } from "../../../controller/protocol/steps.ts";
import { taskResultOf, wireResult } from "../../../controller/protocol/task-result.ts";
import { Result, StepStateSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

const at = timestampFromDate(new Date("2026-01-01T00:00:01.250Z"));

describe("steps", () => {
  it("go through a record and come back as they were", () => {
    const steps = [
      create(StepStateSchema, {
        id: 0n,
        result: Result.SUCCESS,
        startedAt: at,
        stoppedAt: at,
        logIndex: 3n,
        logLength: 7n,
      }),
      create(StepStateSchema, { id: 1n, startedAt: at, logIndex: 10n }),
      create(StepStateSchema, { id: 2n }),
    ];
    assert.deepEqual(wireSteps(stepRecords(steps)), steps);
  });

  it("keep nothing that is not known", () => {
    assert.deepEqual(stepRecords([create(StepStateSchema, { id: 2n })]), [
      { id: 2, logIndex: 0, logLength: 0 },
    ]);
  });
});

describe("results", () => {
  it("have a word each, and none while there is none", () => {
    const wire = [Result.SUCCESS, Result.FAILURE, Result.CANCELLED, Result.SKIPPED];
    assert.deepEqual(wire.map(taskResultOf), ["success", "failure", "cancelled", "skipped"]);
    assert.deepEqual(
      wire.map((result) => wireResult(taskResultOf(result))),
      wire,
    );
    assert.equal(taskResultOf(Result.UNSPECIFIED), undefined);
    assert.equal(taskResultOf(9 as Result), undefined);
    assert.equal(wireResult(undefined), Result.UNSPECIFIED);
  });
});

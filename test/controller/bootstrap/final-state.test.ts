import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { describe, it } from "mocha";
import { closedState } from "../../../controller/bootstrap/final-state.ts";
import { Result, TaskStateSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

const known = create(TaskStateSchema, {
  id: 42n,
  startedAt: timestampFromMs(1_000),
  steps: [
    { id: 0n, result: Result.SUCCESS, startedAt: timestampFromMs(1_000), stoppedAt: timestampFromMs(2_000) },
    { id: 1n, startedAt: timestampFromMs(2_000), logIndex: 4n, logLength: 3n },
    { id: 2n },
  ],
});

describe("the state that ends a job without its runner", () => {
  it("holds every step with a result: the finished one as it was, the running one failed, the rest cancelled", () => {
    const state = closedState(known, 4, Result.FAILURE, 9_000);
    assert.deepEqual(
      state.steps.map(({ id, result, stoppedAt }) => [id, result, stoppedAt && timestampMs(stoppedAt)]),
      [
        [0n, Result.SUCCESS, 2_000],
        [1n, Result.FAILURE, 9_000],
        [2n, Result.CANCELLED, undefined],
        [3n, Result.CANCELLED, undefined],
      ],
    );
    assert.equal(state.steps[1]?.logLength, 3n);
  });

  it("has the result and the time of the end", () => {
    const state = closedState(known, 3, Result.CANCELLED, 9_000);
    assert.equal(state.result, Result.CANCELLED);
    assert.equal(state.stoppedAt && timestampMs(state.stoppedAt), 9_000);
  });

  it("cancels the running step of a cancelled job", () => {
    assert.equal(closedState(known, 3, Result.CANCELLED, 9_000).steps[1]?.result, Result.CANCELLED);
  });

  it("closes steps that were never reported", () => {
    const state = closedState(create(TaskStateSchema, { id: 42n }), 2, Result.FAILURE, 9_000);
    assert.deepEqual(
      state.steps.map(({ id, result }) => [id, result]),
      [
        [0n, Result.CANCELLED],
        [1n, Result.CANCELLED],
      ],
    );
  });

  it("leaves the known state alone", () => assert.equal(known.steps.length, 3));
});

import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { describe, it } from "mocha";
import { shiftState } from "../../../controller/bootstrap/shift.ts";
import { TaskStateSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

describe("shifting rows", () => {
  const state = create(TaskStateSchema, {
    id: 42n,
    steps: [{ id: 0n, logIndex: 4n, logLength: 4n }, { id: 1n }],
  });
  const placesOf = (placeOf: (index: bigint) => bigint) =>
    shiftState(state, placeOf).steps.map(({ logIndex, logLength }) => [logIndex, logLength]);

  it("moves the rows of every step up and leaves the given state alone", () => {
    state.$unknown = [{ no: 99, wireType: WireType.Varint, data: new Uint8Array([7]) }];
    assert.deepEqual(
      placesOf((index) => index + 3n),
      [
        [7n, 4n],
        [3n, 0n],
      ],
    );
    assert.equal(state.steps[0]?.logIndex, 4n);
    assert.deepEqual(shiftState(state, (index) => index).$unknown, state.$unknown);
  });

  it("makes a step shorter where rows were dropped in it", () => {
    assert.deepEqual(
      placesOf((index) => (index < 6n ? index : index - 2n)),
      [
        [4n, 2n],
        [0n, 0n],
      ],
    );
  });
});

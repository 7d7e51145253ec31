import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { acknowledged, shiftState } from "../../../controller/bootstrap/shift.ts";
import { TaskStateSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

const count = fc.bigInt({ min: 0n, max: 1n << 40n });

describe("shifting rows", () => {
  it("moves the rows of every step up and leaves the given state alone", () => {
    const state = create(TaskStateSchema, {
      id: 42n,
      steps: [{ id: 0n, logIndex: 4n, logLength: 2n }, { id: 1n }],
    });
    state.$unknown = [{ no: 99, wireType: WireType.Varint, data: new Uint8Array([7]) }];
    const shifted = shiftState(state, 3n);
    assert.deepEqual(
      shifted.steps.map(({ logIndex, logLength }) => [logIndex, logLength]),
      [
        [7n, 2n],
        [3n, 0n],
      ],
    );
    assert.equal(state.steps[0]?.logIndex, 4n);
    assert.deepEqual(shifted.$unknown, state.$unknown);
  });

  it("gives back the row that it moved up", () => {
    fc.assert(
      fc.property(count, count, (logRows, sent) => acknowledged(logRows + sent, logRows, sent) === sent),
    );
  });

  it("never acknowledges more than was sent nor less than nothing", () => {
    fc.assert(
      fc.property(count, count, count, (ack, logRows, sent) => {
        const own = acknowledged(ack, logRows, sent);
        return own >= 0n && own <= sent;
      }),
    );
  });

  it("says how much of a part is stored", () => assert.equal(acknowledged(8n, 3n, 10n), 5n));
});

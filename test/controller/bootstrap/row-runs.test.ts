import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { rowCost, splitRows } from "../../../controller/bootstrap/row-runs.ts";
import { LogRowSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

const row = (content: string) => create(LogRowSchema, { content });

describe("splitting rows", () => {
  it("keeps every row, in order, and no run is too large unless it is one row", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 300 })), (texts) => {
        const rows = texts.map(row);
        const runs = splitRows(rows, 1_000);
        assert.deepEqual(
          runs.flatMap((run) => run.rows),
          rows,
        );
        for (const run of runs) {
          assert.equal(
            run.cost,
            run.rows.reduce((sum, one) => sum + rowCost(one), 0),
          );
          assert.ok(run.rows.length === 1 || run.cost <= 1_000);
        }
      }),
    );
  });

  it("makes no run of no rows", () => assert.deepEqual(splitRows([], 500), []));

  it("counts bytes, not characters", () => {
    assert.deepEqual(
      splitRows([row("é".repeat(200)), row("é".repeat(200))], 800).map((run) => run.rows.length),
      [1, 1],
    );
  });
});

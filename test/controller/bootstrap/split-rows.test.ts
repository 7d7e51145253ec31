import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { splitRows } from "../../../controller/bootstrap/split-rows.ts";
import { LogRowSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";

const row = (content: string) => create(LogRowSchema, { content });

describe("splitting rows", () => {
  it("keeps every row, in order, and no run is too large unless it is one row", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 300 })), (texts) => {
        const rows = texts.map(row);
        const runs = splitRows(rows, 500);
        assert.deepEqual(runs.flat(), rows);
        for (const run of runs) {
          const bytes = run.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0);
          assert.ok(run.length <= 1 || bytes <= 500);
        }
      }),
    );
  });

  it("makes one empty run of no rows", () => assert.deepEqual(splitRows([], 500), [[]]));

  it("counts bytes, not characters", () => {
    assert.deepEqual(
      splitRows([row("é".repeat(200)), row("é".repeat(200))], 800).map((run) => run.length),
      [1, 1],
    );
  });
});

import assert from "node:assert/strict";
import type { Workload } from "../../../support/workload.ts";

export const reusable: Workload = {
  name: "reusable",
  title: "a local reusable workflow with inputs, inherited secrets and outputs",
  secrets: { WORD: "a-word-for-the-called-one" },
  check: (seen) => {
    const [run] = seen.runs;
    assert.equal(run?.conclusion, "success");
    const rows = Object.values(run?.jobs ?? {}).flatMap(({ log }) => log);
    assert.ok(rows.includes("called with tide, and knows the secret: true, ***"), rows.join("\n"));
    assert.ok(rows.includes("came back: edit"), rows.join("\n"));
  },
};

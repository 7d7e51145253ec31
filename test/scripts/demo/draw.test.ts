import assert from "node:assert/strict";
import { stripVTControlCharacters } from "node:util";
import { describe, it } from "mocha";
import { columns, drawJobs, paint } from "../../../scripts/demo/draw.ts";
import type { JobView } from "../../../scripts/demo/stages.ts";

function aView(overrides: Partial<JobView> = {}): JobView {
  return {
    name: "build",
    backend: "pod",
    stage: "waiting",
    conclusion: undefined,
    spent: [1_234, undefined, undefined, undefined, undefined, undefined],
    total: 1_234,
    attempts: 0,
    ...overrides,
  };
}

const facts = { elapsed: 12_345, executors: 2 };
const plainly = (jobs: readonly JobView[], height?: number) =>
  drawJobs(jobs, facts, height).map((line) => paint(line, { width: 200, colours: false }));

describe("the table of jobs", () => {
  it("has a line for each job, with its stage and the seconds in each, and one that sums up", () => {
    const jobs = [
      aView({ stage: "done", conclusion: "success", spent: [100, 200, 300, 400, 500, 6_000], total: 7_500 }),
      aView({ name: "check pod", stage: "executor", spent: [100, 200, 900], total: 1_200, attempts: 1 }),
      aView({ name: "check vm", backend: "vm", stage: "blocked", spent: [], total: undefined }),
    ];
    assert.deepEqual(plainly(jobs), [
      "job       on  stage     total waiting queued executor identity claimed running",
      "build     pod ✓ success   7.5     0.1    0.2      0.3      0.4     0.5     6.0",
      "check pod pod executor    1.2     0.1    0.2      0.9",
      "check vm  vm  needs",
      "12.3 s · 1 of 3 done · 2 executors",
    ]);
  });

  it("fits into 80 columns with names like those of the example and --jobs", () => {
    for (const line of plainly([aView({ name: "check pod" }), aView({ name: "job-100" })]))
      assert.ok(columns(line) < 80, line);
  });

  for (const [conclusion, cell] of [
    ["success", "✓ success"],
    ["failure", "✗ failure"],
    ["cancelled", "cancelled"],
    ["skipped", "- skipped"],
    [undefined, "unknown"],
  ] as const)
    it(`shows ${conclusion ?? "a missing conclusion"} as "${cell}"`, () => {
      assert.ok(plainly([aView({ stage: "done", conclusion })])[1]?.includes(` ${cell} `));
    });

  it("tells of further attempts", () => {
    assert.match(plainly([aView({ stage: "executor", attempts: 2 })])[1] ?? "", / attempt 2$/);
  });

  it("cuts long names", () => {
    const [, row = ""] = plainly([aView({ name: "a".repeat(80) })]);
    assert.ok(row.startsWith(`${"a".repeat(29)}… pod`), row);
  });

  it("takes no more lines than there are: jobs on their way first, then those that were done last", () => {
    const jobs = [
      ...["a", "b", "c"].map((name) => aView({ name, stage: "done", conclusion: "success" })),
      ...["d", "e"].map((name) => aView({ name, stage: "running" })),
      ...["f", "g"].map((name) => aView({ name })),
    ];
    const names = (height: number) =>
      plainly(jobs, height)
        .slice(1, -1)
        .map((line) => line.slice(0, 1));
    assert.equal(plainly(jobs, 5).length, 5);
    assert.deepEqual(names(5), ["c", "d", "e"]);
    assert.deepEqual(names(7), ["a", "b", "c", "d", "e"]);
    assert.deepEqual(names(8), ["a", "b", "c", "d", "e", "f"]);
    assert.deepEqual(names(9), ["a", "b", "c", "d", "e", "f", "g"]);
    assert.deepEqual(names(1), ["d"]);
    assert.match(plainly(jobs, 5).at(-1) ?? "", /4 not shown$/);
    assert.doesNotMatch(plainly(jobs, 9).at(-1) ?? "", /not shown/);
  });
});

describe("a painted line", () => {
  const line = [{ text: "one " }, { text: "✓ two", style: "green" as const }, { text: " three" }];

  it("is cut to the width, colours and all", () => {
    for (let width = 0; width <= 20; width++) {
      const colourful = stripVTControlCharacters(paint(line, { width, colours: true }));
      assert.equal(colourful.trimEnd(), "one ✓ two three".slice(0, width).trimEnd());
      assert.equal(paint(line, { width, colours: false }), colourful.trimEnd());
    }
  });

  it("has colours only where they are wanted, and ends each", () => {
    assert.equal(paint(line, { width: 80, colours: true }), "one \u001B[32m✓ two\u001B[39m three");
    assert.equal(paint(line, { width: 6, colours: true }), "one \u001B[32m✓ \u001B[39m");
  });
});

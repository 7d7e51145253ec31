import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { assignmentMachine } from "../../../controller/assignment/next.ts";
import { phaseNames } from "../../../controller/assignment/record.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { exitsTable } from "../../../scripts/machine-table/exits.ts";
import { placed } from "../../../scripts/machine-table/place.ts";
import { machineTable, markdownTable } from "../../../scripts/machine-table/table.ts";

const page = path.join(import.meta.dirname, "../../../controller/assignment/README.md");

describe("the tables of the state machine", () => {
  it("are in the README as the code is now (npm run gen:machine)", async () => {
    const made = [machineTable(assignmentMachine), exitsTable(defaultTimes)].join("\n\n");
    const text = await readFile(page, "utf8");
    assert.equal(text, placed(text, made));
  });

  it("show where an event leads, and the rule by which it is ignored", () => {
    const lines = machineTable(assignmentMachine).split("\n");
    const cells = (line: string | undefined) => (line ?? "").split("|").map((cell) => cell.trim());
    assert.deepEqual(cells(lines[0]).slice(1, -1), ["event", ...phaseNames]);
    const failed = cells(lines.find((line) => line.includes("`failed`"))).slice(2, -1);
    assert.deepEqual(failed.slice(0, 4), ["**ending**", "**ending**", "**ending**", "**ending**"]);
    const [, rule] = failed.slice(4);
    const named = lines.find((line) => cells(line)[1] === rule);
    assert.equal(cells(named)[2], "the task is over");
  });

  it("show an exit by time for every phase but the end", () => {
    const text = exitsTable(defaultTimes);
    for (const name of phaseNames.filter((one) => one !== "finished")) assert.match(text, new RegExp(name));
    assert.match(text, /claimed, silent +\| 5 min +\| `failed` \(silent\)/);
    assert.match(exitsTable({ ...defaultTimes, silenceMs: 6_000 }), /claimed, silent +\| 0\.1 min/);
  });

  it("are columns of one width", () => {
    assert.equal(
      markdownTable(["a", "long head"], [["1", "2"], ["wider"]]),
      [
        "| a     | long head |",
        "| ----- | --------- |",
        "| 1     | 2         |",
        "| wider |           |",
      ].join("\n"),
    );
  });

  it("stand between two marks, and nowhere else", () => {
    assert.throws(() => placed("a page", "a table"), /lacks/);
    const text = placed("before <!-- made by `npm run gen:machine` --> x <!-- until here --> after", "T");
    assert.equal(text, "before <!-- made by `npm run gen:machine` -->\n\nT\n\n<!-- until here --> after");
    assert.equal(placed(text, "T"), text);
  });
});

import assert from "node:assert/strict";
import { onlyJob, outputOf, stepStates, type Workload } from "../../../support/workload.ts";

/** Where Gitea cuts a row, in bytes. */
const longest = 65_536;

export const oddOutput: Workload = {
  name: "odd-output",
  title:
    "a line of 300 kB, bytes that are no UTF-8, CR, NUL, ANSI, empty lines, commands, no newline at the end",
  check: (seen) => {
    const job = onlyJob(seen, "odd");
    assert.equal(job.conclusion, "success");
    assert.deepEqual(new Set(Object.values(stepStates(job))), new Set(["success"]));
    const output = (step: string) => outputOf(job, step);

    assert.deepEqual(output("A long line"), ["x".repeat(longest), "after the long line"]);
    const [cut] = output("A long line that is cut inside a character");
    assert.match(cut ?? "", /^aé+\uFFFD?$/);
    assert.deepEqual(output("Bytes that are no UTF-8"), ["bytes ? end"]);
    assert.deepEqual(output("Control characters"), [
      "one\rtwo\rthree",
      "written on Windows",
      "\u001B[31mred\u001B[0m and \u001B[1mbold\u001B[0m",
      "before\0after",
      "a\ttab, a bell \u0007, a form feed \f",
    ]);
    assert.deepEqual(output("Empty lines and spaces"), [
      "",
      "   leading and trailing   ",
      "",
      "",
      "Grüße, 世界 🌍",
    ]);
    assert.deepEqual(output("Both streams").toSorted(), ["to stderr", "to stdout"]);
    const commands = output("Commands");
    assert.ok(commands.includes("the word is ***"), commands.join("\n"));
    assert.ok(commands.includes("the other word is still-shown"), commands.join("\n"));
    // gitea-runner passes a line on when it is whole.
    assert.deepEqual(output("No newline at the end"), ["the last whole line"]);
    assert.deepEqual(output("Nothing"), []);
  },
};

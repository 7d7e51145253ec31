import assert from "node:assert/strict";
import { conclusions, onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

const word = "correct-horse-battery-staple";
const text = "first secret line\nsecond secret line";

export const secrets: Workload = {
  name: "secrets",
  title: "secrets and the job's own tokens are masked in its log",
  secrets: { WORD: word, TEXT: text },
  variables: { GREETING: "a variable is shown" },
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { masked: "success", consume: "success" });
    const job = onlyJob(seen, "masked");
    const output = (step: string) => outputOf(job, step);
    assert.deepEqual(output("In the environment"), [
      "the word is ***",
      "the word is ***s in a longer text, and again: ***",
      `its length is ${word.length}`,
    ]);
    assert.deepEqual(output("In the script"), ["the word is ***"]);
    assert.deepEqual(output("Several lines"), ["***", "***"]);
    assert.deepEqual(output("The job's own tokens"), [
      "token ***, ***, ***",
      "runtime token ***",
      "one token",
    ]);
    assert.deepEqual(output("A variable is none"), ["a variable is shown"]);
    const everything = [...job.log, ...onlyJob(seen, "consume").log].join("\n");
    for (const secret of [word, ...text.split("\n")]) assert.ok(!everything.includes(secret), secret);
  },
};

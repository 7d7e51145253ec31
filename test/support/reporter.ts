import { appendFileSync } from "node:fs";
import Mocha from "mocha";

/** Mocha's `spec` output, and one JSON line of counts in the file that TEST_COUNTS names, for `.ci/run` to add up. */
export default class CountingReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const file = process.env["TEST_COUNTS"];
    if (file === undefined) return;
    runner.once("end", () => {
      const { passes, failures, pending } = this.stats;
      appendFileSync(file, `${JSON.stringify({ passed: passes, failed: failures, skipped: pending })}\n`);
    });
  }
}

import { appendFileSync } from "node:fs";
import Mocha from "mocha";
import { failedTestLine } from "./failed-test.ts";

/**
 * Mocha's `spec` output, and in the file that TEST_COUNTS names lines for `.ci/run`: `failed <test>` for each test or hook that
 * failed, as soon as mocha tells, and at the end one JSON line of counts to add up.
 */
export default class CountingReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const file = process.env["TEST_COUNTS"];
    if (file === undefined) return;
    runner.on("fail", (test: Mocha.Runnable, error: Error & { readonly file?: string }) => {
      // A file that ends its worker or cannot be loaded fails outside of any test; then mocha puts the name into the error.
      const failed = { file: test.file ?? error.file, title: test.fullTitle(), message: error.message };
      appendFileSync(file, `failed ${failedTestLine(failed, process.cwd())}\n`);
    });
    runner.once("end", () => {
      const { passes, failures, pending } = this.stats;
      appendFileSync(file, `${JSON.stringify({ passed: passes, failed: failures, skipped: pending })}\n`);
    });
  }
}

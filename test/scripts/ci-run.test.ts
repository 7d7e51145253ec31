import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { before, describe, it } from "mocha";
import { useFakeTools } from "../support/fake-tools.ts";

type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number };

/** A line of the script that plays npm: a suite with these counts, which fails if a test did. */
function suite(name: string, counts: Counts): string {
  const status = counts.failed > 0 ? 1 : 0;
  return `[ "$*" = "${name}" ] && { echo '${JSON.stringify(counts)}' >> "$TEST_COUNTS"; exit ${status}; }`;
}

/** A line of the script that plays npm: the unit tests are these files, run by the real mocha with the real reporter. */
function mochaOn(...filesAndOptions: readonly string[]): string {
  const folder = join(import.meta.dirname, "..", "..");
  const mocha = join(folder, "node_modules", "mocha", "bin", "mocha.js");
  const reporter = join(folder, "test", "support", "reporter.ts");
  const words = [process.execPath, mocha, "--reporter", reporter, ...filesAndOptions];
  return `[ "$*" = test ] && exec ${words.map((word) => `'${word}'`).join(" ")}`;
}

const unit = suite("test", { passed: 3, failed: 0, skipped: 0 });
const simulation = suite("run test:sim", { passed: 1, failed: 0, skipped: 0 });
const endToEnd = suite("run test:e2e", { passed: 1, failed: 0, skipped: 0 });
const chaos = suite("run test:chaos", { passed: 1, failed: 0, skipped: 0 });
const kubernetes = suite("run test:kubernetes", { passed: 1, failed: 0, skipped: 0 });
const openSandbox = suite("run test:opensandbox", { passed: 1, failed: 0, skipped: 0 });
const pulumi = suite("run test:pulumi", { passed: 1, failed: 0, skipped: 0 });
const images = suite("run test:images", { passed: 1, failed: 0, skipped: 0 });
const late = `${kubernetes}\n${openSandbox}\n${pulumi}\n${images}`;
const others = `${simulation}\n${endToEnd}\n${chaos}\n${late}`;

const besides = "run peers -- kubernetes opensandbox pulumi images";

describe(".ci/run", () => {
  const tools = useFakeTools();

  before("copy it beside fake tools", async () => {
    const folder = join(tools.bin, "..", ".ci");
    await mkdir(folder);
    await copyFile(join(import.meta.dirname, "..", "..", ".ci", "run"), join(folder, "run"));
    await tools.script("git", "exit 0");
    // Never the real one, whatever this machine lacks.
    await tools.script("apt-get", "exit 0");
  });

  const start = async (npm: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<ChildProcess> => {
    await tools.script("npm", 'echo "$*" >> "$CALLS"', ...npm, "exit 0");
    const file = join(tools.bin, "..", ".ci", "run");
    // Both outputs in one, as a CI shows them: the last line has to be the last of both.
    return spawn("sh", ["-c", 'exec bash "$1" 2>&1', "sh", file], {
      env: { ...tools.environment, ...more },
      stdio: ["ignore", "pipe", "inherit"],
    });
  };
  const end = async (child: ChildProcess) => {
    assert.ok(child.stdout !== null);
    const [output] = await Promise.all([text(child.stdout), once(child, "exit")]);
    return { output, lastLine: output.trimEnd().split("\n").at(-1), exitCode: child.exitCode };
  };
  const run = async (...args: Parameters<typeof start>) => await end(await start(...args));

  it("adds up the tests of all suites in its last line", async () => {
    const { lastLine, exitCode } = await run([unit, others]);
    assert.equal(lastLine, "10 passed, 0 failed");
    assert.equal(exitCode, 0);
    const all = [
      "ci",
      "run check",
      "run lint",
      "run lint:shell",
      "run peers -- actionlint",
      "run lint:workflows",
      "run gen",
      "run peers",
      "test",
      "run test:sim",
      "run test:e2e",
      "run test:chaos",
      "run peers -- kubernetes",
      "run test:kubernetes",
      "run peers -- opensandbox",
      "run test:opensandbox",
      "run peers -- pulumi",
      "run test:pulumi",
      "run peers -- images",
      "run test:images",
    ];
    const calls = await tools.calls();
    // Beside the others, at any time; it is ended with them, also before it has begun.
    assert.deepEqual(
      calls.filter((call) => call !== besides),
      all,
    );
  });

  it("prepares the last suites' peers beside the others", async () => {
    const pipe = await tools.pipe("begun-beside");
    const { lastLine } = await run([
      `[ "$*" = "${besides}" ] && { echo it > '${pipe}'; exit 3; }`,
      `[ "$*" = test ] && read -r line < '${pipe}'`,
      unit,
      others,
    ]);
    assert.equal(lastLine, "10 passed, 0 failed");
  });

  it("runs no suite whose peers cannot be had, and goes on", async () => {
    const { output, lastLine, exitCode } = await run([
      '[ "$*" = "run peers -- opensandbox" ] && exit 3',
      unit,
      others,
    ]);
    assert.match(output, /^failed: peers of the OpenSandbox tests$/m);
    assert.doesNotMatch(output, /^== OpenSandbox tests$/m);
    assert.equal(lastLine, "9 passed, 1 failed");
    assert.equal(exitCode, 1);
  });

  it("leaves out a suite for which there is no time, says so, and does not fail for it", async () => {
    const { output, lastLine, exitCode } = await run(
      ['[ "$*" = "run peers -- kubernetes" ] && exit 124', unit, others],
      { CI: "true" },
    );
    assert.match(
      output,
      /^left out: Kubernetes tests: no time after \d+ s, their peers are not compiled yet$/m,
    );
    assert.doesNotMatch(output, /^== Kubernetes tests$/m);
    assert.equal(lastLine, "9 passed, 0 failed, 1 skipped");
    assert.equal(exitCode, 0);
  });

  it("goes on after a failure and counts it", async () => {
    const check = '[ "$*" = "run check" ] && exit 2';
    const { output, lastLine, exitCode } = await run([
      check,
      suite("test", { passed: 1, failed: 2, skipped: 0 }),
      others,
    ]);
    assert.equal(lastLine, "8 passed, 3 failed");
    assert.equal(exitCode, 1);
    assert.match(output, /^failed: check\nfailed: unit tests: 2 tests$/m);
  });

  it("fails when a suite ran no test", async () => {
    const { output, lastLine, exitCode } = await run([unit, simulation, chaos, late]);
    assert.equal(lastLine, "9 passed, 1 failed");
    assert.equal(exitCode, 1);
    assert.match(output, /^failed: end-to-end tests: no test ran$/m);
  });

  it("fails when a suite fails though all its tests passed", async () => {
    const crash =
      '[ "$*" = test ] && { echo \'{"passed":3,"failed":0,"skipped":0}\' >> "$TEST_COUNTS"; exit 7; }';
    assert.equal((await run([crash, others])).lastLine, "10 passed, 1 failed");
  });

  it("tells skipped tests, which fail under CI=true", async () => {
    const npm = [suite("test", { passed: 3, failed: 0, skipped: 2 }), others];
    const here = await run(npm);
    assert.equal(here.lastLine, "10 passed, 0 failed, 2 skipped");
    assert.equal(here.exitCode, 0);
    const there = await run(npm, { CI: "true" });
    assert.equal(there.lastLine, "10 passed, 2 failed");
    assert.equal(there.exitCode, 1);
  });

  for (const [how, ...options] of [["one after the other"], ["in parallel", "--parallel", "--jobs", "2"]]) {
    it(`names each failed test and hook once more at the end, one line each, when they run ${how}`, async () => {
      await writeFile(
        join(tools.bin, "..", "fails.test.cjs"),
        `describe("a part", () => {
          it("passes", () => {});
          it("has two\\nlines", () => {
            require("node:assert").equal(1, 2, "\\u001b[31m1\\u001b[39m is not\\n\\n2: 100%s");
          });
          it("quotes", () => { throw new Error('{"passed":9,"failed":9,"skipped":9}'); });
          it("is long", () => { throw new Error("ä".repeat(5000)); });
          after("tidy up", () => { throw new Error("nothing to tidy"); });
        });`,
      );
      const { output } = await run([mochaOn(...options, "fails.test.cjs"), others]);
      assert.deepEqual(
        output
          .slice(output.indexOf("\nfailed: "))
          .replace(/^total .*$/m, "total")
          .split("\n"),
        [
          "",
          "failed: unit tests: 4 tests",
          "failed: unit tests: fails.test.cjs: a part has two lines: 1 is not 2: 100%s",
          'failed: unit tests: fails.test.cjs: a part quotes: {"passed":9,"failed":9,"skipped":9}',
          `failed: unit tests: fails.test.cjs: a part is long: ${"ä".repeat(199)}…`,
          'failed: unit tests: fails.test.cjs: a part "after all" hook: tidy up for "is long": nothing to tidy',
          "",
          "total",
          "8 passed, 4 failed",
          "",
        ],
      );
    });
  }

  it("names a file that cannot be loaded beside others", async () => {
    await writeFile(join(tools.bin, "..", "breaks.test.cjs"), 'throw new Error("not today");');
    const { output } = await run([mochaOn("--parallel", "--jobs", "2", "breaks.test.cjs"), others]);
    assert.match(output, /^failed: unit tests: breaks\.test\.cjs: .*not today$/m);
  });

  it("names twenty failed tests of a suite, and says how many more there are", async () => {
    const lines = Array.from(
      { length: 23 },
      (_, index) => `echo 'failed test ${index + 1}' >> "$TEST_COUNTS"`,
    );
    const { output } = await run([
      `if [ "$*" = test ]; then ${lines.join("; ")}; fi`,
      suite("test", { passed: 0, failed: 23, skipped: 0 }),
      others,
    ]);
    assert.match(output, /^failed: unit tests: test 20\nfailed: unit tests: and 3 more\n\ntotal/m);
  });

  it("says so in its last line when nothing can be installed", async () => {
    const { lastLine, exitCode } = await run(['[ "$*" = ci ] && exit 1', unit, others]);
    assert.equal(lastLine, "0 passed, 1 failed");
    assert.equal(exitCode, 1);
  });

  it("leaves nothing running when it is interrupted", async () => {
    const begun = await tools.pipe("begun");
    const open = await tools.pipe("open");
    // Not even what outlives its suite: the background process holds the pipe.
    const hang = `[ "$*" = "run test:e2e" ] && { exec 9> ${open}; echo > ${begun}; sleep 1000 & wait; }`;
    const child = await start([unit, simulation, hang]);
    const ended = readFile(open);
    await readFile(begun);
    child.kill("SIGTERM");
    const { output, lastLine, exitCode } = await end(child);
    await ended;
    assert.match(output, /^failed: interrupted by SIGTERM$/m);
    assert.equal(lastLine, "4 passed, 1 failed");
    assert.equal(exitCode, 1);
  });
});

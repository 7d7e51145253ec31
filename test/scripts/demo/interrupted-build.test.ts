import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, it } from "mocha";
import { useFakeTools } from "../../support/fake-tools.ts";
import { assertNoneKnows, useDemo } from "./demo-process.ts";

describe("the demo's first build", () => {
  const tools = useFakeTools();
  const demos = useDemo();

  it("is ended by Ctrl-C soon, with code 130, and leaves neither process nor file", async () => {
    const pipe = await tools.pipe("begun");
    await tools.script(
      "go",
      `if [ "$1" = env ]; then echo go1.99.0; exit; fi`,
      `touch "\${GOTMPDIR:-$TMPDIR}/go-build1"`,
      `echo "half built" >&2`,
      `sleep 600 > ${pipe}`,
    );
    const demo = demos.start(["--exit"], tools.environment);
    await demo.line(/nats-server .*building with Go/);
    assert.equal(await demo.stop(), 130);
    await assertNoneKnows(tools.bin);
    assert.deepEqual(readdirSync(tools.cache), []);
    await demos.assertNothingIsLeft();
  });

  it("that fails ends the demo with 1 and says why", async () => {
    await tools.script(
      "go",
      `if [ "$1" = env ]; then echo go1.99.0; exit; fi`,
      "echo no-such-module >&2",
      "exit 1",
    );
    const demo = demos.start([], tools.environment);
    assert.equal(await demo.ended, 1);
    assert.match(demo.lines.join("\n"), /Failed: building nats-server .*no-such-module/);
    await demos.assertNothingIsLeft();
  });
});

describe("the demo's command line", () => {
  const demos = useDemo();

  it("tells all options with --help, and ends with 2 for one that there is not", async () => {
    const helped = demos.start(["--help"]);
    assert.equal(await helped.ended, 0);
    for (const option of ["--exit", "--jobs N", "--workflow FILE", "--gitea URL", "--token-file F", "--keep"])
      assert.ok(
        helped.lines.some((line) => line.trimStart().startsWith(option)),
        option,
      );
    const wrong = demos.start(["--colour"]);
    assert.equal(await wrong.ended, 2);
    assert.match(wrong.lines.join("\n"), /^demo: .*--colour.*--help tells more$/);
  });
});

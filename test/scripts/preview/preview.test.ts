import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { runToEnd } from "../../../scripts/peers/run-to-end.ts";
import { useFakeTools } from "../../support/fake-tools.ts";

const program = path.join(import.meta.dirname, "../../../scripts/preview.ts");

describe("npm run preview", () => {
  const tools = useFakeTools();
  const preview = async (...args: readonly string[]) => {
    const environment = { ...tools.environment, PULUMI_BACKEND_URL: "file:///backend" };
    const command = { program: process.execPath, args: [program, ...args], environment, deadline: 30_000 };
    return await runToEnd(command, new AbortController().signal);
  };

  it("says that pulumi is not on PATH, before anything else", async () => {
    const { exitCode, stdout, stderr } = await preview("prod");
    assert.equal(exitCode, 1);
    assert.match(stderr, /^preview: pulumi is not on PATH: install it, https:/);
    assert.match(
      stdout,
      /^## Plan of stack prod\n\n\*\*No plan:\*\* pulumi is not on PATH: install it, https:\S+\.\n$/,
    );
  });

  it("wants one stack, and tells more when asked", async () => {
    for (const args of [[], ["dev", "prod"], ["--yes", "prod"]]) {
      const { exitCode, stderr } = await preview(...args);
      assert.equal(exitCode, 2, args.join(" "));
      assert.match(stderr, /^preview: name one stack, as in npm run preview -- prod/);
    }
    const { exitCode, stdout } = await preview("--help");
    assert.equal(exitCode, 0);
    assert.match(stdout, /^Usage: npm run --silent preview -- <stack>/);
  });

  it("B-107 looks at what is there with the program's own addresses, and asks nobody", async () => {
    await tools.script(
      "pulumi",
      'echo "$*" >> "$CALLS"',
      'echo "backend $PULUMI_BACKEND_URL" >> "$CALLS"',
      "echo 'Resources:'",
      "echo '    8 unchanged'",
    );
    const { exitCode, stdout } = await preview("prod");
    assert.equal(exitCode, 0);
    assert.match(stdout, /^## Plan of stack prod\n\n8 unchanged\.\n/);
    assert.deepEqual(await tools.calls(), [
      "preview --stack prod --refresh --run-program --diff --non-interactive --color never",
      "backend file:///backend",
    ]);
  });

  it("B-107 fails with the reason first where there is no plan", async () => {
    await tools.script("pulumi", "echo 'error: no stack named '\"'prod'\"' found' >&2", "exit 255");
    const { exitCode, stdout, stderr } = await preview("prod");
    assert.equal(exitCode, 1);
    assert.match(
      stdout,
      /^## Plan of stack prod\n\n\*\*No plan:\*\* there is no stack prod: pulumi stack init prod/,
    );
    assert.match(stderr, /^preview: there is no stack prod/);
  });
});

import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { runToEnd } from "../../../scripts/peers/run-to-end.ts";
import { useFakeTools } from "../../support/fake-tools.ts";

const program = path.join(import.meta.dirname, "../../../scripts/comment-preview.ts");

describe("npm run comment-preview", () => {
  const tools = useFakeTools();
  const run = async (...args: readonly string[]) => {
    const { environment } = tools;
    const command = { program: process.execPath, args: [program, ...args], environment, deadline: 30_000 };
    return await runToEnd(command, new AbortController().signal);
  };

  it("wants a stack and a file, and tells more when asked", async () => {
    for (const args of [[], ["prod"], ["prod", "a", "b"], ["--yes", "prod", "a"]]) {
      const { exitCode, stderr } = await run(...args);
      assert.equal(exitCode, 2, args.join(" "));
      assert.match(stderr, /^comment-preview: name a stack and a file/);
    }
    const { exitCode, stdout } = await run("--help");
    assert.equal(exitCode, 0);
    assert.match(stdout, /^Usage: npm run comment-preview -- <stack> <file>/);
  });

  it("says which variables of a job are missing", async () => {
    const { exitCode, stdout, stderr } = await run("prod", "/dev/null");
    assert.equal(exitCode, 1);
    assert.equal(stdout, "");
    assert.match(stderr, /^comment-preview: GITHUB_API_URL: it is not set; .*PULL_REQUEST: it is not set\n$/);
  });
});

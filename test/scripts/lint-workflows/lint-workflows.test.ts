import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "mocha";
import { runToEnd } from "../../../scripts/peers/run-to-end.ts";
import { useFakeTools } from "../../support/fake-tools.ts";

const program = path.join(import.meta.dirname, "../../../scripts/lint-workflows.ts");

describe("npm run lint:workflows", () => {
  const tools = useFakeTools();
  const lint = async () => {
    const environment = { ...tools.environment, PATH: tools.bin, ACTIONLINT_BINARY: "" };
    const command = { program: process.execPath, args: [program], environment, deadline: 30_000 };
    return await runToEnd(command, new AbortController().signal);
  };

  it("names all that is missing at once, and looks at nothing", async () => {
    const { exitCode, stdout, stderr } = await lint();
    assert.deepEqual([exitCode, stdout], [1, ""]);
    assert.deepEqual(stderr.trimEnd().split("\n"), [
      "lint:workflows: shellcheck is not on PATH: apt install shellcheck",
      "lint:workflows: yamllint is missing: apt install yamllint",
      "lint:workflows: actionlint is missing: npm run peers -- actionlint",
    ]);
  });

  it("B-95 shows every workflow to both, and the scripts in them to shellcheck", async () => {
    const shellcheck = await tools.script("shellcheck", "exit 0");
    await tools.script("yamllint", 'echo "yamllint $*" >> "$CALLS"');
    await tools.script(
      "actionlint",
      '[ "$1" = --version ] && echo 1.7.12 && exit',
      'echo "actionlint $*" >> "$CALLS"',
      "echo 'test.yml:1:1: it is wrong'",
      "exit 1",
    );
    const { exitCode, stdout } = await lint();
    assert.deepEqual([exitCode, stdout], [1, "test.yml:1:1: it is wrong\n"]);
    const [yaml = "", actions = "", ...more] = await tools.calls();
    assert.deepEqual(more, []);
    assert.match(yaml, /^yamllint --strict /);
    assert.ok(actions.startsWith("actionlint ") && actions.includes(` -shellcheck ${shellcheck} `), actions);
    for (const call of [yaml, actions])
      for (const file of [".gitea/workflows/test.yml", "scripts/demo/example/.gitea/workflows/hello.yml"])
        assert.ok(call.split(" ").includes(file), call);
  });
});

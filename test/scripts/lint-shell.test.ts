import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { beforeEach, describe, it } from "mocha";
import { useFakeTools } from "../support/fake-tools.ts";

const program = path.join(import.meta.dirname, "../../scripts/lint-shell.ts");

describe("npm run lint:shell", () => {
  const tools = useFakeTools();
  const folder = () => path.join(tools.bin, "../repository");
  beforeEach("make a repository that has scripts and others", async () => {
    await rm(folder(), { recursive: true, force: true });
    await rm(path.join(tools.bin, "../calls"), { force: true });
    await mkdir(folder());
    await git("init", "--quiet");
    const files: Readonly<Record<string, string>> = {
      "run it": "#!/usr/bin/env bash\n",
      plain: "#!/bin/sh\n",
      "library.sh": "true\n",
      "program.ts": "#!/usr/bin/env node\n",
      text: "all about bash\n",
      ignored: "#!/bin/sh\n",
      ".gitignore": "ignored\n",
    };
    for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder(), name), content);
    await git("add", "plain");
    for (const name of ["shellcheck", "shfmt"])
      await tools.script(name, `[ "$*" = --version ] || { printf '%s|' ${name} "$@"; echo; } >> "$CALLS"`);
  });

  const run = (command: string, args: readonly string[]) =>
    new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
      const options = { cwd: folder(), env: tools.environment };
      execFile(command, [...args], options, (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
      });
    });
  const git = (...args: readonly string[]) => run("git", args);
  const lint = (...args: readonly string[]) => run(process.execPath, [program, ...args]);

  it("hands every shell script, new ones too, to shellcheck and shfmt", async () => {
    const { code, stdout } = await lint();
    assert.deepEqual([code, stdout], [0, "3 shell scripts, nothing found\n"]);
    const sorted = (await tools.calls()).map((call) => {
      const [before = "", after = ""] = call.split("|--|");
      return `${before}: ${after.split("|").toSorted().join(" ").trim()}`;
    });
    assert.deepEqual(sorted, [
      "shellcheck: library.sh plain run it",
      "shfmt|-i|2|-ci|-d: library.sh plain run it",
    ]);
  });

  it("runs both, and fails when one of them finds something", async () => {
    await tools.script("shellcheck", `[ "$*" = --version ] || { echo SC2086; exit 1; }`);
    const { code, stdout } = await lint();
    assert.deepEqual([code, stdout], [1, "SC2086\n"]);
    assert.equal((await tools.calls()).length, 1);
  });

  it("lets shfmt correct what it finds", async () => {
    await lint("--write");
    assert.match((await tools.calls())[1] ?? "", /^shfmt\|-i\|2\|-ci\|-l\|-w\|--\|/);
  });

  it("leaves out what is removed but not committed", async () => {
    await rm(path.join(folder(), "plain"));
    assert.match((await lint()).stdout, /^2 shell scripts/);
  });

  it("says what is missing, and how to get it", async () => {
    const bare = path.join(folder(), "bare");
    await mkdir(bare);
    await copyFile("/usr/bin/git", path.join(bare, "git"));
    const options = { cwd: folder(), env: { ...tools.environment, PATH: bare } };
    const end = await new Promise<readonly unknown[]>((resolve) => {
      execFile(process.execPath, [program], options, (error, _stdout, stderr) =>
        resolve([error?.code, stderr]),
      );
    });
    assert.deepEqual(end, [
      2,
      "shellcheck and shfmt not on PATH: apt-get install --no-install-recommends shellcheck shfmt\n",
    ]);
  });
});

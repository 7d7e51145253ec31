import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import { eventually } from "../../support/eventually.ts";
import { useFakeTools } from "../../support/fake-tools.ts";
import { processesMentioning } from "../../support/find-processes.ts";

const source = join(import.meta.dirname, "..", "..", "..", "scripts", "peers", "process-group.ts");

describe("a process group of its own", () => {
  const tools = useFakeTools();

  it("does not outlive us when we are killed right after the start, before we could do anything else", async () => {
    const program = join(tools.bin, "lasting");
    await symlink("/bin/sleep", program);
    const lines = [
      `import { spawnWatched } from ${JSON.stringify(source)};`,
      `spawnWatched({ program: ${JSON.stringify(program)}, args: ["1000"], environment: process.env });`,
      'process.kill(process.pid, "SIGKILL");',
    ];
    const us = spawn(process.execPath, ["--input-type=module", "--eval", lines.join("\n")], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    assert.deepEqual(await once(us, "exit"), [null, "SIGKILL"]);
    await eventually("nothing is left", () => processesMentioning(program).length === 0, 50_000);
  });
});

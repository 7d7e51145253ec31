import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { describe, it } from "mocha";
import { signalGroup } from "../../../scripts/peers/process-group.ts";
import { untilGroupStopped } from "../../../scripts/peers/stopped-group.ts";

describe("a process group that is stopped", () => {
  it("is waited for until each of its threads stands still", async () => {
    const busy = 'console.log("busy"); for (;;);';
    const child = spawn(process.execPath, ["-e", busy], {
      detached: true,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const pid = child.pid ?? assert.fail("it does not start");
    try {
      await once(child.stdout, "data");
      let isOver = false;
      const stopped = untilGroupStopped(pid).then(() => (isOver = true));
      // Longer than one look takes.
      for (let look = 0; look < 3; look++) await states(pid);
      assert.equal(isOver, false);
      signalGroup(pid, "SIGSTOP");
      await stopped;
      assert.deepEqual([...new Set(await states(pid))], ["T"]);
    } finally {
      signalGroup(pid, "SIGKILL");
      await once(child, "close");
    }
    await untilGroupStopped(pid);
  });
});

async function states(pid: number): Promise<readonly string[]> {
  const threads = await readdir(`/proc/${pid}/task`);
  const stats = threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/stat`, "utf8"));
  return (await Promise.all(stats)).map((stat) => stat.slice(stat.lastIndexOf(")") + 2)[0] ?? "");
}

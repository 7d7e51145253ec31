import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "mocha";
import { parseStat, parseUids } from "../../../../controller/backends/local/process-stat.ts";
import { createProcessTable } from "../../../../controller/backends/local/process-table.ts";

/** Fields 4 to 22 of a stat line: ppid group session … startTime. */
const rest = "1 70 71 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654";

describe("a process's stat", () => {
  for (const name of ["sh", "a b", "a) R 9 9 9", "((", "node\n"]) {
    it(`is read right for a process called ${JSON.stringify(name)}`, () => {
      assert.deepEqual(parseStat(`69 (${name}) S ${rest} 12 34`), {
        group: 70,
        session: 71,
        startTime: 987_654,
        zombie: false,
      });
    });
  }

  it("tells what has ended", () => {
    const states = ["R", "S", "D", "T", "Z", "X"];
    const zombies = states.filter((state) => parseStat(`69 (sh) ${state} ${rest} 12`).zombie);
    assert.deepEqual(zombies, ["Z", "X"]);
  });

  it("is refused when it is cut off, and so is a status without uids", () => {
    assert.throws(() => parseStat("69 (sh) S 1 70"), /field 6/);
    assert.throws(() => parseUids("Name:\tsh\n"), /no line Uid/);
  });
});

describe("the process table", () => {
  it("shows a process with its group, uids and environment, and no longer when it has ended", async () => {
    const table = createProcessTable();
    const child = spawn("sleep", ["60"], { detached: true, env: { MARK: "yes" }, stdio: "ignore" });
    const pid = child.pid ?? Number.NaN;
    await once(child, "spawn");
    const uid = process.getuid?.() ?? Number.NaN;
    const found = table.find(pid);
    assert.deepEqual([found?.group, found?.session, found?.zombie], [pid, pid, false]);
    assert.deepEqual(table.living().find((other) => other.pid === pid)?.uids, [uid, uid, uid, uid]);
    assert.ok(table.environment(pid).includes("MARK=yes"));
    table.signal(-pid, "SIGKILL");
    await once(child, "exit");
    assert.equal(table.find(pid), undefined);
    assert.deepEqual(table.environment(pid), []);
    table.signal(pid, "SIGKILL");
  });
});

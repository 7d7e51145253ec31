import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "mocha";
import {
  hasNoEnvironment,
  parseStat,
  parseUids,
} from "../../../../controller/backends/local/process-stat.ts";
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

  for (const [what, memory, start, end, none] of [
    ["a program with an environment", "2998272", "140731715578548", "140731715579882", false],
    ["a program without one", "2998272", "140731715578548", "140731715578548", true],
    ["a program that is not there yet", "4096", "0", "0", false],
    ["one that has just come", "2998272", "18446744073709551610", "18446744073709551611", false],
    ["no program", "0", "0", "0", true],
  ] as const) {
    it(`tells of ${what} that its environment is ${none ? "" : "not "}empty`, () => {
      const between = Array.from({ length: 26 }, (_, index) => index).join(" ");
      const text = `69 (a) 9) S ${rest} ${memory} ${between} ${start} ${end} 0\n`;
      assert.equal(hasNoEnvironment(text), none);
    });
  }

  it("is refused when it is cut off, and so is a status without uids", () => {
    assert.throws(() => parseStat("69 (sh) S 1 70"), /field 6/);
    assert.throws(() => parseUids("Name:\tsh\n"), /no line Uid/);
  });
});

describe("the process table", () => {
  it("shows a process with its group, uids and environment, and no longer when it has ended", async () => {
    const table = createProcessTable();
    const child = spawn("cat", { detached: true, env: { MARK: "yes" }, stdio: ["pipe", "pipe", "ignore"] });
    const pid = child.pid ?? Number.NaN;
    // The start is told a little before the environment can be seen.
    child.stdin.write("ready");
    await once(child.stdout, "data");
    const uid = process.getuid?.() ?? Number.NaN;
    const found = table.find(pid);
    assert.deepEqual([found?.group, found?.session, found?.zombie], [pid, pid, false]);
    assert.deepEqual(table.living().find((other) => other.pid === pid)?.uids, [uid, uid, uid, uid]);
    assert.deepEqual(table.environment(pid), ["MARK=yes", ""]);
    table.signal(-pid, "SIGKILL");
    await once(child, "close");
    assert.equal(table.find(pid), undefined);
    assert.deepEqual(table.environment(pid), []);
    table.signal(pid, "SIGKILL");
  });

  it("never takes the environment of a process that becomes another program for empty", async () => {
    const again = 'exec sh -c "$0" "$0"';
    const child = spawn("sh", ["-c", again, again], {
      detached: true,
      env: { MARK: "yes" },
      stdio: "ignore",
    });
    const pid = child.pid ?? Number.NaN;
    await once(child, "spawn");
    try {
      const table = createProcessTable();
      let undecided = 0;
      for (let looks = 0; looks < 100_000 && undecided < 3; looks++) {
        const environment = table.environment(pid);
        if (environment === undefined) undecided++;
        else assert.ok(environment.includes("MARK=yes"), environment.join(" "));
      }
    } finally {
      child.kill("SIGKILL");
    }
  });
});

import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { listProcesses, parseStat } from "../../../controller/bootstrap/process-list.ts";
import { orphans, stepProcesses, stillThere } from "../../../controller/bootstrap/step-processes.ts";

const aProcess = (pid: number, parent: number, group = pid, startTime = pid) => ({
  pid,
  parent,
  group,
  startTime,
});

const bootstrap = aProcess(1, 0);
const runner = aProcess(10, 1, 1);
/** An earlier step left it. */
const daemon = aProcess(15, 1, 14);
const shell = aProcess(20, 10);
const child = aProcess(21, 20, 20);
const grandchild = aProcess(22, 21, 20);
/** It has made a process group of its own. */
const apart = aProcess(23, 21, 23);
const before = [bootstrap, runner, daemon, shell, child, grandchild, apart];

const pidsOf = (processes: readonly { readonly pid: number }[]) => processes.map(({ pid }) => pid);
const toInit = ({ pid, group, startTime }: typeof child) => aProcess(pid, 1, group, startTime);

describe("what a cancelled step leaves behind", () => {
  const steps = stepProcesses(before, 10);

  it("is nothing as long as the step's shell lives", () => {
    assert.deepEqual(orphans(before, 10, steps), []);
  });

  it("is what the shell had started, whatever group it is in, once the shell is gone", () => {
    const after = [bootstrap, runner, daemon, toInit(child), aProcess(22, 21, 20), aProcess(23, 21, 23)];
    assert.deepEqual(pidsOf(orphans(after, 10, steps)), [21, 22, 23]);
  });

  it("is also what was started in the step's group since, and by a parent that had ended before", () => {
    const late = aProcess(30, 1, 20);
    assert.deepEqual(pidsOf(orphans([bootstrap, runner, daemon, late], 10, steps)), [30]);
  });

  it("is neither what an earlier step left, nor the next step, nor gitea-runner, nor we", () => {
    const next = [aProcess(40, 10), aProcess(41, 40, 40)];
    assert.deepEqual(orphans([bootstrap, runner, daemon, ...next], 10, steps), []);
    assert.deepEqual(orphans([bootstrap, daemon], 10, steps), []);
  });

  it("is no stranger that was given a number again, of a process or of a group", () => {
    const again = aProcess(23, 1, 23, 99);
    const left = stillThere([bootstrap, runner, daemon, child], steps);
    assert.deepEqual(orphans([bootstrap, runner, again], 10, left), []);
    assert.deepEqual(pidsOf(orphans([bootstrap, runner, toInit(child)], 10, left)), [21]);
  });
});

describe("the list of processes", () => {
  it("reads names with blanks and brackets in them", () => {
    const text = `77 (a) name (x)) S 5 70 60 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 99 1 2 3\n`;
    assert.deepEqual(parseStat(77, text), { pid: 77, parent: 5, group: 70, startTime: 123456 });
  });

  it("leaves out what has ended", () => {
    assert.equal(parseStat(77, "77 (gone) Z 5 70 60 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123456 0"), undefined);
  });

  it("knows us and our parent", function () {
    const all = listProcesses();
    if (process.platform !== "linux") {
      assert.deepEqual(all, []);
      return;
    }
    const own = all.find(({ pid }) => pid === process.pid);
    assert.equal(own?.parent, process.ppid);
    assert.ok(own.startTime > 0);
  });
});

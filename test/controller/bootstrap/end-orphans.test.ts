import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "mocha";
import { endOrphans, signalProcess } from "../../../controller/bootstrap/end-orphans.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";

const runner = { pid: 10, parent: 1, group: 1, startTime: 10 };
const shell = { pid: 20, parent: 10, group: 20, startTime: 20 };
const child = { pid: 21, parent: 20, group: 20, startTime: 21 };
const orphan = { ...child, parent: 1 };

describe("ending what a cancelled step leaves behind", () => {
  it("asks once, and insists after the grace", async () => {
    const clock = createFakeClock();
    const over = new AbortController();
    const told: string[] = [];
    let all = [runner, shell, child];
    const ending = endOrphans(
      {
        list: () => all,
        signal: (pid, name) => told.push(`${pid} ${name}`),
        runner: 10,
        clock,
        grace: 5_000,
      },
      over.signal,
    );
    await clock.step(1_000);
    assert.deepEqual(told, []);
    all = [runner, orphan];
    await clock.step(250);
    assert.deepEqual(told, ["21 SIGTERM"]);
    await clock.step(4_000);
    assert.deepEqual(told, ["21 SIGTERM"]);
    await clock.step(1_000);
    assert.equal(told[1], "21 SIGKILL");
    all = [runner];
    const before = told.length;
    await clock.step(1_000);
    assert.equal(told.length, before);
    over.abort();
    await ending;
  });

  it("takes no offence at a process that is gone", async () => {
    const ended = spawn("true");
    await once(ended, "exit");
    assert.ok(ended.pid !== undefined);
    signalProcess(ended.pid, "SIGTERM");
  });
});

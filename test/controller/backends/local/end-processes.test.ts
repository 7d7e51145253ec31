import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import { endProcesses } from "../../../../controller/backends/local/end-processes.ts";
import { createFakeClock } from "../../../fakes/fake-clock.ts";
import {
  aFile,
  aProcess,
  createFakeProcessTable,
  executor,
  folder,
  type FakeProcessTable,
  marked,
} from "./fake-processes.ts";

function begin(table: FakeProcessTable, file = aFile()) {
  const clock = createFakeClock();
  const stop = new AbortController();
  const done = endProcesses(folder, file, { table, clock, graceMs: 5000 }, stop.signal);
  done.catch(() => undefined);
  return { clock, stop, done };
}

describe("the end of an executor's processes", () => {
  it("is asked for once, and forced on all that is left when the grace is over", async () => {
    const table = createFakeProcessTable(aProcess(), aProcess({ pid: 101, group: 100, session: 100 }));
    const { clock, done } = begin(table);
    await clock.step(4999);
    assert.deepEqual(table.signals, [[-100, "SIGTERM"]]);
    await clock.step(1);
    assert.deepEqual(table.signals.slice(1), [
      [100, "SIGKILL"],
      [101, "SIGKILL"],
    ]);
    await clock.step(10);
    await done;
  });

  it("does not use up the grace for what the bootstrap left running", async () => {
    const table = createFakeProcessTable(aProcess(), aProcess({ pid: 101, group: 100, session: 100 }));
    const byDefault = table.onSignal;
    table.onSignal = (target, name) => {
      byDefault(target, name);
      if (name === "SIGTERM") table.processes = table.processes.filter(({ pid }) => pid === 101);
    };
    const { clock, done } = begin(table);
    await clock.step(30);
    await done;
    assert.deepEqual(table.signals, [
      [-100, "SIGTERM"],
      [101, "SIGKILL"],
    ]);
  });

  it("is forced again on what is started meanwhile", async () => {
    const table = createFakeProcessTable(aProcess({ pid: 101, group: 100, session: 100 }));
    const byDefault = table.onSignal;
    let next = 102;
    table.onSignal = (target, name) => {
      byDefault(target, name);
      if (next < 110) table.processes.push(aProcess({ pid: next++, group: 100, session: 100 }));
    };
    const { clock, done } = begin(table);
    await clock.step(5000);
    await done;
    assert.deepEqual(table.processes, []);
    assert.equal(table.signals.length, 9);
  });

  it("waits until it can be told whose a process is that becomes another program", async () => {
    const table = createFakeProcessTable(aProcess({ pid: 101, environment: undefined }));
    const { clock, done } = begin(table);
    await clock.step(10);
    assert.deepEqual(table.signals, []);
    table.processes = [aProcess({ pid: 101, environment: marked })];
    await clock.step(100);
    await done;
    assert.deepEqual(table.signals, [[101, "SIGKILL"]]);
  });

  it("does not wait for ever for what cannot be told", async () => {
    const table = createFakeProcessTable(aProcess({ pid: 101, environment: undefined }));
    const { clock, done } = begin(table);
    await clock.step(10_000);
    await done;
    assert.deepEqual(table.signals, []);
  });

  it("does not ask whose a process is by its environment where executors have uids", async () => {
    const table = createFakeProcessTable(aProcess({ pid: 101, environment: undefined }));
    await begin(table, aFile({ uid: 60600 })).done;
    assert.deepEqual(table.signals, []);
  });

  it("fails, naming a process, when one does not end; the next call tries again", async () => {
    const table = createFakeProcessTable(
      aProcess({ pid: 101, group: 100, session: 100 }),
      aProcess({ pid: 102, group: 100, session: 100 }),
    );
    table.onSignal = () => undefined;
    const { clock, done } = begin(table);
    await clock.step(10_000);
    await assert.rejects(
      done,
      (error) =>
        error instanceof BackendError &&
        error.kind === "retryable" &&
        error.message === `process 101 and 1 more of ${executor} did not end`,
    );
  });

  it("sends no signal to another process that has the bootstrap's pid by now", async () => {
    const table = createFakeProcessTable(aProcess({ startTime: 9000 }));
    await begin(table).done;
    assert.deepEqual(table.signals, []);
  });

  it("stops waiting when it is aborted", async () => {
    const { clock, stop, done } = begin(createFakeProcessTable(aProcess()));
    await clock.waiting();
    const reason = new Error("shutting down");
    stop.abort(reason);
    await assert.rejects(done, reason);
    assert.deepEqual(clock.pending(), []);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createExecutorKeeper } from "../../../../controller/backends/local/executor-keeper.ts";
import type { ExecutorFile } from "../../../../controller/backends/local/executor-file.ts";
import type { ExecutorStore } from "../../../../controller/backends/local/executor-store.ts";
import type { Registration } from "../../../../controller/backends/local/registration.ts";
import { createFakeClock } from "../../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../../fakes/recording-logger.ts";
import { anExecutorMetadata } from "../../../support/builders.ts";
import { aFile, aProcess, createFakeProcessTable, executor, folder } from "./fake-processes.ts";
import { createUidClaims } from "../../../../controller/backends/local/uid-claims.ts";

const { signal } = new AbortController();

function keep(table = createFakeProcessTable(aProcess())) {
  let file: ExecutorFile = aFile();
  const store: ExecutorStore = {
    names: () => Promise.resolve([executor]),
    read: () => Promise.resolve({ kind: "stored", file }),
    write: (_name, written) => {
      file = written;
      return Promise.resolve();
    },
    madeAt: () => Promise.resolve(undefined),
    remove: () => Promise.resolve(),
    paths: () => ({ folder, home: "", log: "", runnerConfig: "" }),
  };
  const registration: Registration = {
    folder: "",
    socket: () => "",
    reservedUids: () => Promise.resolve(new Set()),
    add: () => Promise.resolve(),
    remove: () => Promise.resolve(),
    sweep: () => Promise.resolve([]),
  };
  const clock = createFakeClock();
  const keeper = createExecutorKeeper({
    kind: "pod",
    owner: anExecutorMetadata().owner,
    graceMs: 5_000,
    store,
    table,
    registration,
    uidClaims: createUidClaims(clock, ""),
    clock,
    log: createRecordingLogger(),
    changed: () => undefined,
  });
  return { table, clock, keeper, ended: () => file.ended };
}

describe("the keeper of local executors", () => {
  it("says of our own child how it ended, not that it is gone, when it looks before Node has told", async () => {
    const { table, keeper, clock, ended } = keep();
    keeper.adopt(executor);
    table.processes = [aProcess({ zombie: true })];
    assert.deepEqual(keeper.stateOf(executor, aFile()), { phase: "running" });
    const ending = keeper.end(executor, aFile(), { reason: "deadline" }, signal);
    await clock.step(1_000);
    assert.equal(ended(), null);
    keeper.exited(executor, "exited with code 3");
    await ending;
    assert.equal(ended(), "exited with code 3");
    assert.deepEqual(keeper.stateOf(executor, aFile()), { phase: "ended", reason: "exited with code 3" });
  });

  it("writes down the reason of a kill, whatever it is told of the end", async () => {
    const { table, keeper, clock, ended } = keep();
    keeper.adopt(executor);
    table.onSignal = () => void (table.processes = []);
    const ending = keeper.end(executor, aFile(), { reason: "cancelled" }, signal);
    await clock.step(1_000);
    keeper.exited(executor, "killed by SIGTERM");
    await ending;
    assert.equal(ended(), "cancelled");
  });

  it("waits for no news of an executor that an earlier controller started", async () => {
    const { table, keeper, ended } = keep();
    table.processes = [];
    await keeper.end(executor, aFile(), { reason: "deadline" }, signal);
    assert.equal(ended(), "its process is gone");
  });

  it("stops waiting for news when it is aborted", async () => {
    const { table, keeper, ended } = keep();
    keeper.adopt(executor);
    table.processes = [];
    const stop = new AbortController();
    const ending = keeper.end(executor, aFile(), { reason: "deadline" }, stop.signal);
    stop.abort(new Error("shutting down"));
    await assert.rejects(ending, /^Error: shutting down$/);
    assert.equal(ended(), null);
  });
});

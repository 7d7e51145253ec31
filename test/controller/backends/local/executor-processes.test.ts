import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  findMain,
  mainLives,
  processesOf,
} from "../../../../controller/backends/local/executor-processes.ts";
import { executorState } from "../../../../controller/backends/local/executor-state.ts";
import { testStart } from "../../../support/builders.ts";
import {
  aFile,
  aProcess,
  createFakeProcessTable,
  folder,
  type FakeProcess,
  marked,
} from "./fake-processes.ts";

const pids = (file: ReturnType<typeof aFile>, ...processes: FakeProcess[]) =>
  processesOf(folder, file, createFakeProcessTable(...processes)).map(({ pid }) => pid);

describe("the processes of an executor", () => {
  const cases: readonly (readonly [string, Partial<FakeProcess>[], boolean])[] = [
    ["lives with the same start time", [{}], true],
    ["is gone", [], false],
    ["is a zombie", [{ zombie: true }], false],
    ["is another process by now", [{ startTime: 5001 }], false],
  ];
  for (const [what, processes, lives] of cases) {
    it(`${lives ? "live" : "do not live"} when the bootstrap ${what}`, () => {
      assert.equal(mainLives(aFile(), createFakeProcessTable(...processes.map(aProcess))), lives);
    });
  }

  it("do not live after a boot, even with the same pid and start time", () => {
    const file = aFile({ process: { pid: 100, startTime: 5000, bootId: "an-earlier-boot" } });
    assert.equal(mainLives(file, createFakeProcessTable(aProcess())), false);
    assert.deepEqual(pids(file, aProcess()), []);
  });

  it("are those of its group, its session and its folder's name, under our own uid", () => {
    const inGroup = aProcess({ pid: 101, group: 100, session: 100 });
    const inSession = aProcess({ pid: 102, group: 102, session: 100 });
    const named = aProcess({ pid: 103, environment: marked });
    const stranger = aProcess({ pid: 104, environment: [`${marked[0]}0`] });
    const zombie = aProcess({ pid: 105, group: 100, zombie: true });
    assert.deepEqual(pids(aFile(), inGroup, inSession, named, stranger, zombie), [101, 102, 103]);
  });

  it("are not those of a group that has its number by now", () => {
    const leader = aProcess({ startTime: 9000 });
    const member = aProcess({ pid: 101, group: 100, session: 100, startTime: 9001 });
    assert.deepEqual(pids(aFile(), leader, member), []);
  });

  it("are all of its own uid and no others, if it has one", () => {
    const file = aFile({ uid: 60600 });
    const own = aProcess({ pid: 101, uids: [60600, 60600, 60600, 60600] });
    const raised = aProcess({ pid: 102, uids: [60600, 0, 0, 0] });
    const other = aProcess({ pid: 103, group: 100, uids: [60601, 60601, 60601, 60601] });
    assert.deepEqual(pids(file, own, raised, other), [101, 102]);
  });

  it("tell which one is the bootstrap: the oldest session leader with the executor's folder", () => {
    const table = createFakeProcessTable(
      aProcess({ pid: 90, startTime: 3000 }),
      aProcess({ pid: 103, startTime: 5002, environment: marked }),
      aProcess({ pid: 102, startTime: 5001, environment: marked }),
      aProcess({ pid: 101, startTime: 5000, session: 102, environment: marked }),
    );
    const ref = { pid: 102, startTime: 5001, bootId: "this-boot" };
    assert.deepEqual(findMain(folder, aFile({ process: null }), table), ref);
  });
});

describe("the state of an executor", () => {
  const state = (
    file: ReturnType<typeof aFile>,
    processes: FakeProcess[],
    more: { exit?: string; now?: number } = {},
  ) =>
    executorState(folder, file, {
      table: createFakeProcessTable(...processes),
      exit: more.exit,
      now: more.now ?? testStart,
    });

  it("is running while anything of it lives", () => {
    assert.deepEqual(state(aFile(), [aProcess()]), { phase: "running" });
    const left = aProcess({ pid: 101, group: 100, session: 100 });
    assert.deepEqual(state(aFile(), [left], { exit: "exited with code 0" }), { phase: "running" });
    const unknown = aProcess({ environment: marked });
    assert.deepEqual(state(aFile({ process: null }), [unknown], { now: testStart + 60_000 }), {
      phase: "running",
    });
  });

  it("is ended for the best reason that is known", () => {
    const reasons = [
      state(aFile(), []),
      state(aFile(), [], { exit: "exited with code 1" }),
      state(aFile({ killedFor: "silence" }), [], { exit: "killed by SIGKILL" }),
      state(aFile({ killedFor: "silence", ended: "exited with code 2" }), [aProcess()]),
    ].map((found) => (found.phase === "ended" ? found.reason : found.phase));
    assert.deepEqual(reasons, ["its process is gone", "exited with code 1", "silence", "exited with code 2"]);
  });

  for (const [what, cause, seen] of [
    ["exited by itself", undefined, state(aFile(), [], { exit: "exited with code 1" })],
    ["was killed by somebody else", "killed", state(aFile(), [], { exit: "killed by SIGKILL" })],
    ["is gone, and nobody saw how", "vanished", state(aFile(), [])],
    [
      "ran before its machine was started anew",
      "node_lost",
      state(aFile({ process: { pid: 100, startTime: 5000, bootId: "the-boot-before" } }), []),
    ],
    ["never began", "start_failed", state(aFile({ process: null }), [], { now: testStart + 10_000 })],
    [
      "was ended at its deadline",
      "deadline",
      state(aFile({ killedFor: "deadline", cause: "deadline" }), [], { exit: "killed by SIGKILL" }),
    ],
    ["was ended by us for another reason", undefined, state(aFile({ killedFor: "cancelled" }), [])],
    [
      "has been written down as ended",
      "killed",
      state(aFile({ ended: "killed by SIGKILL", cause: "killed" }), []),
    ],
  ] as const)
    it(`names ${cause ?? "no cause"} for one that ${what}`, () => {
      assert.ok(seen.phase === "ended");
      assert.equal(seen.cause, cause);
    });

  it("is starting for 10 s without a process", () => {
    const file = aFile({ process: null });
    assert.deepEqual(state(file, [], { now: testStart + 9999 }), { phase: "starting" });
    assert.equal(state(file, [], { now: testStart + 10_000 }).phase, "ended");
  });
});

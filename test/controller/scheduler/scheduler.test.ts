import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { describe, it } from "mocha";
import type { BackendLoad } from "../../../controller/scheduler/backlog.ts";
import { createHeldUp } from "../../../controller/scheduler/held-up.ts";
import { createScheduler, type SchedulerOptions } from "../../../controller/scheduler/scheduler.ts";
import { createWakeup } from "../../../controller/platform/wakeup.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";
import { type FetchTaskResponse, FetchTaskResponseSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeClock, settle } from "../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

type OpenFetch = {
  readonly version: bigint;
  /** A task, by its id. */
  task(id: bigint): Promise<void>;
  nothing(version?: bigint): Promise<void>;
  fail(error?: Error): Promise<void>;
};

const load = (overrides: Partial<BackendLoad> = {}): BackendLoad => ({
  kind: "pod",
  waiting: 0,
  oldestMs: 0,
  backlog: 4,
  ...overrides,
});

function setUp(overrides: Partial<SchedulerOptions> = {}) {
  const clock = createFakeClock();
  const log = createRecordingLogger();
  const heldUp = createHeldUp();
  const stop = new AbortController();
  const loadsChanged = createWakeup();
  const declared: (readonly string[])[] = [];
  const declareFailures: Error[] = [];
  const versions: bigint[] = [];
  const open: OpenFetch[] = [];
  const taken: bigint[] = [];
  const state = { loads: [load()] as readonly BackendLoad[] };

  const fetchTask = (version: bigint): Promise<FetchTaskResponse> => {
    versions.push(version);
    const { promise, resolve, reject } = Promise.withResolvers<FetchTaskResponse>();
    const end = async (settleIt: () => void) => {
      open.splice(open.indexOf(fetch), 1);
      settleIt();
      await settle();
    };
    const fetch: OpenFetch = {
      version,
      task: (id) => end(() => resolve(create(FetchTaskResponseSchema, { task: { id }, tasksVersion: 1n }))),
      nothing: (tasksVersion = 1n) => end(() => resolve(create(FetchTaskResponseSchema, { tasksVersion }))),
      fail: (error = new GiteaError("transient", "fetching")) => end(() => reject(error)),
    };
    open.push(fetch);
    return promise;
  };
  const scheduler = createScheduler({
    gitea: {
      declare: (labels) => {
        declared.push(labels);
        const error = declareFailures.shift();
        return error === undefined ? Promise.resolve() : Promise.reject(error);
      },
      fetchTask,
    },
    take: async ({ id }) => {
      await Promise.resolve();
      taken.push(id);
    },
    labelsFor: (backends) => ["self-hosted", ...backends],
    loads: () => state.loads,
    loadsChanged: (signal) => loadsChanged.next(signal),
    heldUp,
    capacity: 3,
    clock,
    random: () => 0.5,
    log,
    ...overrides,
  });
  let ended = false;
  const start = async () => {
    const run = scheduler.run(stop.signal).finally(() => (ended = true));
    await settle();
    return run;
  };
  /** Starts it without waiting for its end. */
  const begin = async () => {
    const running = start();
    await settle();
    return { running };
  };
  const answerAll = async (version?: bigint) => {
    for (const fetch of open.slice()) await fetch.nothing(version);
  };
  const abort = async () => {
    stop.abort(new Error("stop"));
    await settle();
  };
  const setLoads = async (...loads: readonly BackendLoad[]) => {
    state.loads = loads;
    loadsChanged.wake();
    await settle();
  };
  return {
    scheduler,
    clock,
    log,
    heldUp,
    declared,
    declareFailures,
    versions,
    open,
    taken,
    begin,
    answerAll,
    abort,
    setLoads,
    ended: () => ended,
  };
}

const first = (open: readonly OpenFetch[]): OpenFetch => open[0] ?? assert.fail("no fetch is under way");

describe("the scheduler", () => {
  it("B-20 asks as often at once as there is capacity, after exactly one Declare, while tasks keep coming", async () => {
    const { begin, declared, open, taken } = setUp();
    await begin();
    for (let id = 1n; id <= 12n; id++) {
      assert.equal(open.length, 3);
      await first(open).task(id);
    }
    assert.deepEqual(declared, [["self-hosted", "pod"]]);
    assert.equal(taken.length, 12);
  });

  it("B-20 asks nothing before Declare was answered, which is tried until it is", async () => {
    const { begin, declared, declareFailures, open, clock, log } = setUp();
    declareFailures.push(new GiteaError("transient", "away"), new GiteaError("transient", "away"));
    await begin();
    assert.equal(open.length, 0);
    await clock.step(500);
    assert.deepEqual([declared.length, open.length], [2, 0]);
    await clock.step(1_000);
    assert.deepEqual([declared.length, open.length], [3, 3]);
    assert.equal(log.lines.filter(({ message }) => message === "scheduler error").length, 2);
  });

  it("B-20 at a stop starts no fetch, lets those under way finish, and their tasks are taken", async () => {
    const { begin, open, taken, abort, ended } = setUp();
    const { running } = await begin();
    await abort();
    assert.ok(!ended());
    await first(open).task(7n);
    await first(open).nothing();
    assert.ok(!ended());
    await first(open).fail();
    await running;
    assert.deepEqual([taken, open.length], [[7n], 0]);
  });

  it("B-20 ends at once when it is stopped while it rests or waits after an error", async () => {
    for (const end of ["nothing", "fail"] as const) {
      const { begin, open, abort } = setUp();
      const { running } = await begin();
      for (const fetch of open.slice()) await fetch[end]();
      await abort();
      await running;
      assert.equal(open.length, 0);
    }
  });

  it("ends when it is stopped before Gitea has taken the Declare", async () => {
    const { begin, declareFailures, abort, open } = setUp();
    declareFailures.push(...Array.from({ length: 9 }, () => new GiteaError("transient", "away")));
    const { running } = await begin();
    await abort();
    await running;
    assert.equal(open.length, 0);
  });

  it("B-22 does not ask again before the task that came is taken, while the others go on", async () => {
    const gate = Promise.withResolvers<void>();
    const { begin, open, versions } = setUp({ take: () => gate.promise });
    await begin();
    await first(open).task(1n);
    assert.equal(open.length, 2);
    await first(open).task(2n);
    await first(open).task(3n);
    assert.deepEqual([open.length, versions.length], [0, 3]);
    gate.resolve();
    await settle();
    assert.equal(open.length, 3);
  });

  it("B-22 asks for nothing while a task in hand cannot be stored", async () => {
    const { begin, open, heldUp, clock } = setUp();
    await begin();
    const held = heldUp.begin();
    await first(open).task(1n);
    await first(open).nothing();
    await first(open).fail();
    await clock.step(60_000);
    assert.equal(open.length, 0);
    held[Symbol.dispose]();
    await settle();
    assert.equal(open.length, 3);
  });

  it("goes on after a task that could not be taken, and says so", async () => {
    const { begin, open, log, clock } = setUp({ take: () => Promise.reject(new Error("not taken")) });
    await begin();
    await first(open).task(1n);
    assert.equal((await log.line("scheduler error")).fields["error"], "not taken");
    await clock.step(500);
    assert.equal(open.length, 3);
  });

  it("B-23 polls about once a second in all while nothing comes, with 0 now and then", async () => {
    const { begin, open, versions, clock, answerAll } = setUp({ capacity: 5 });
    await begin();
    await answerAll(9n);
    assert.equal(open.length, 0);
    const before = versions.length;
    for (let second = 0; second < 60; second++) {
      await clock.step(1_000);
      assert.ok(open.length <= 1);
      await answerAll(9n);
    }
    const polls = versions.slice(before);
    assert.ok(polls.length >= 50 && polls.length <= 66, String(polls.length));
    assert.equal(polls.filter((version) => version === 0n).length, 2);
    assert.ok(polls.every((version) => version === 0n || version === 9n));
  });

  it("B-23 waits after errors 0.5 s, doubling to 5 s, and not longer after a success in between", async () => {
    const { begin, open, clock } = setUp({ capacity: 1, random: () => 0 });
    await begin();
    const pauses: number[] = [];
    const failOnce = async () => {
      await first(open).fail();
      pauses.push(clock.pending().find((ms) => ms <= 5_000) ?? Infinity);
      await clock.step(5_000);
    };
    for (let i = 0; i < 6; i++) await failOnce();
    await first(open).task(1n);
    await failOnce();
    assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000, 5_000, 5_000, 500]);
  });

  it("when a task comes, all ask again, with version 0", async () => {
    const { begin, open, clock, answerAll } = setUp();
    await begin();
    await answerAll(9n);
    await clock.step(1_100);
    assert.deepEqual(
      open.map(({ version }) => version),
      [9n],
    );
    await first(open).task(1n);
    assert.deepEqual(
      open.map(({ version }) => version),
      [0n, 0n, 0n],
    );
  });

  it("when a place is free, all ask again, with version 0", async () => {
    const { begin, scheduler, open, answerAll } = setUp();
    await begin();
    await answerAll(9n);
    scheduler.lookAgain();
    await settle();
    assert.deepEqual(
      open.map(({ version }) => version),
      [0n, 0n, 0n],
    );
  });

  it("asks with 0 after an error, whose outcome it does not know", async () => {
    const { begin, open, clock } = setUp({ capacity: 1 });
    await begin();
    await first(open).nothing(9n);
    await clock.step(1_000);
    assert.equal(first(open).version, 9n);
    await first(open).fail();
    await clock.step(500);
    assert.equal(first(open).version, 0n);
  });

  for (const [what, error, lost] of [
    ["came to no answer", new GiteaError("transient", "fetching"), 1],
    ["Gitea itself refused", new GiteaError("transient", "fetching", { answered: true }), 0],
    ["Gitea does not know the runner for", new GiteaError("unregistered", "fetching"), 0],
  ] as const)
    it(`${lost === 1 ? "counts" : "does not count"} a fetch as lost that ${what}`, async () => {
      let count = 0;
      const { begin, open } = setUp({ capacity: 1, onFetchLost: () => count++ });
      await begin();
      await first(open).fail(error);
      assert.equal(count, lost);
    });

  it("ends with the variables to look at when Gitea does not know the runner at the start", async () => {
    const { scheduler, declareFailures, versions } = setUp();
    declareFailures.push(new GiteaError("unregistered", "declaring"));
    const running = scheduler.run(new AbortController().signal);
    await assert.rejects(running, /GITEA_RUNNER_UUID and the token in GITEA_RUNNER_TOKEN_FILE/);
    assert.deepEqual(versions, []);
  });

  it("asks once a minute when Gitea does not know the runner any more, and never declares again by itself", async () => {
    const { begin, open, declared, versions, clock } = setUp({ capacity: 1 });
    await begin();
    await first(open).fail(new GiteaError("unregistered", "fetching"));
    const before = versions.length;
    await clock.step(59_000);
    assert.equal(versions.length, before);
    await clock.step(1_000);
    assert.equal(versions.length, before + 1);
    assert.equal(declared.length, 1);
  });

  it("knows when Gitea last answered", async () => {
    const { begin, scheduler, open, clock } = setUp({ capacity: 1 });
    assert.equal(scheduler.answeredAt(), undefined);
    await begin();
    const declaredAt = clock.now();
    assert.equal(scheduler.answeredAt(), declaredAt);
    await clock.step(3_000);
    await first(open).nothing();
    assert.equal(scheduler.answeredAt(), declaredAt + 3_000);
  });

  describe("with a full backend", () => {
    const full = load({ waiting: 4 });
    const vm = load({ kind: "vm" });

    it("declares without its label once the fetches under way have ended, and asks with 0 then", async () => {
      const { begin, setLoads, declared, open, answerAll } = setUp();
      await begin();
      await setLoads(full, vm);
      assert.equal(declared.length, 1);
      await answerAll(9n);
      assert.deepEqual(declared.at(-1), ["self-hosted", "vm"]);
      assert.deepEqual([...new Set(open.map(({ version }) => version))], [0n]);
    });

    it("takes a task that came for it all the same", async () => {
      const { begin, setLoads, open, taken } = setUp();
      await begin();
      await setLoads(full, vm);
      await first(open).task(5n);
      assert.deepEqual(taken, [5n]);
    });

    it("does not ask at all while every backend is full, and asks again afterwards", async () => {
      const { begin, setLoads, declared, open, answerAll, clock } = setUp();
      await begin();
      await setLoads(full);
      await answerAll();
      assert.deepEqual(declared.at(-1), ["self-hosted"]);
      await clock.step(60_000);
      assert.equal(open.length, 0);
      await setLoads(load());
      assert.deepEqual(declared.at(-1), ["self-hosted", "pod"]);
      assert.equal(open.length, 3);
    });

    it("ends when it is stopped while every backend is full, or while a declaration waits for a fetch", async () => {
      const idle = setUp();
      const first1 = await idle.begin();
      await idle.setLoads(full);
      await idle.answerAll();
      await idle.abort();
      await first1.running;

      const busy = setUp();
      const second = await busy.begin();
      await busy.setLoads(full);
      await busy.abort();
      assert.ok(!busy.ended());
      await busy.answerAll();
      await second.running;
      assert.equal(busy.declared.length, 1);
    });

    it("sees by itself that what waits has become old", async () => {
      let oldestMs = 0;
      const { begin, declared, clock, answerAll } = setUp({ loads: () => [load({ waiting: 1, oldestMs })] });
      await begin();
      oldestMs = 600_000;
      await clock.step(15_000);
      await answerAll();
      assert.deepEqual(declared.at(-1), ["self-hosted"]);
    });
  });
});

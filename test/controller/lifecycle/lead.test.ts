import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  lead,
  type Leadership,
  LeaseLostError,
  type LeadOptions,
} from "../../../controller/lifecycle/lead.ts";
import { defaultLeaseTimes, type LeaseRecord } from "../../../controller/lifecycle/lease.ts";
import type { Clock } from "../../../controller/platform/clock.ts";
import { abortable } from "../../../controller/platform/signal.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { createFakeLease, type FakeLease } from "../../fakes/fake-lease.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

const other: LeaseRecord = {
  holder: "other",
  durationSeconds: 15,
  acquireTime: "2026-01-01T00:00:00.000Z",
  renewTime: "2026-01-01T00:00:00.000Z",
  transitions: 0,
};

type UnderTest = {
  readonly clock: FakeClock;
  readonly lease: FakeLease;
  readonly log: ReturnType<typeof createRecordingLogger>;
  /** Undefined until it leads. */
  readonly leadership: Leadership | undefined;
  /** How it ended: undefined while it has not, "done", or the error. */
  readonly outcome: unknown;
  finishWork(error?: Error): void;
  shutDown(): void;
  /** Time that goes by while no timer fires. */
  standStill(ms: number): void;
};

/** One process that wants to lead; its work lasts until the test ends it. */
function start(
  given: Partial<Pick<LeadOptions, "port" | "superseded">> & { readonly lease?: FakeLease } = {},
): UnderTest {
  const clock = createFakeClock();
  const lease = given.lease ?? createFakeLease();
  const log = createRecordingLogger();
  const stop = new AbortController();
  const work = Promise.withResolvers<void>();
  let leadership: Leadership | undefined;
  let outcome: unknown;
  let stoodStill = 0;
  void lead(
    {
      port: given.port ?? lease,
      identity: "me",
      clock,
      steady: () => clock.now() - 7 + stoodStill,
      random: () => 0,
      log,
      times: defaultLeaseTimes,
      ...(given.superseded === undefined ? {} : { superseded: given.superseded }),
    },
    (begun) => {
      leadership = begun;
      return work.promise;
    },
    stop.signal,
  ).then(
    () => (outcome = "done"),
    (error: unknown) => (outcome = error),
  );
  return {
    clock,
    lease,
    log,
    get leadership() {
      return leadership;
    },
    get outcome() {
      return outcome;
    },
    finishWork: (error) => {
      if (error === undefined) work.resolve();
      else work.reject(error);
    },
    shutDown: () => stop.abort(new Error("SIGTERM")),
    standStill: (ms) => void (stoodStill += ms),
  };
}

async function leader(
  given: Parameters<typeof start>[0] = {},
): Promise<UnderTest & { readonly leadership: Leadership }> {
  const one = start(given);
  await one.clock.step(0);
  assert.ok(one.leadership !== undefined);
  return one as UnderTest & { readonly leadership: Leadership };
}

const stateOf = ({ leadership }: UnderTest) =>
  leadership === undefined
    ? "waits"
    : leadership.leading.aborted
      ? leadership.serving.aborted
        ? "over"
        : "serves"
      : "leads";

describe("a process that wants to lead", () => {
  it("B-24 leads at once where nobody does, and writes its name into the Lease", async () => {
    const one = await leader();
    assert.equal(stateOf(one), "leads");
    assert.equal(one.leadership.holds(), true);
    assert.deepEqual(one.lease.stored?.record, {
      ...other,
      holder: "me",
    });
  });

  it("renews the Lease every 2 s as long as its work goes on, and releases it at once after that", async () => {
    const one = await leader();
    await one.clock.step(20_000);
    assert.equal(one.lease.writes.length, 11);
    assert.equal(one.lease.stored?.record.holder, "me");
    one.finishWork();
    await one.clock.step(0);
    assert.equal(one.outcome, "done");
    assert.equal(one.lease.stored.record.holder, "");
    assert.equal(one.leadership.holds(), false);
    await one.clock.step(60_000);
    assert.equal(one.lease.writes.length, 12);
  });

  it("waits until a Lease says the same for as long as it lasts, and tells whose it is once", async () => {
    const lease = createFakeLease();
    lease.edit(other);
    const one = start({ lease });
    await one.clock.step(8_000);
    lease.edit({ ...other, renewTime: "2026-01-01T00:00:08.000Z" });
    await one.clock.step(16_000);
    assert.equal(stateOf(one), "waits");
    await one.clock.step(2_000);
    assert.equal(stateOf(one), "leads");
    assert.deepEqual([lease.stored?.record.holder, lease.stored?.record.transitions], ["me", 1]);
    const told = one.log.lines.filter(({ message }) => message.startsWith("another controller leads"));
    assert.deepEqual(
      told.map(({ fields }) => fields["holder"]),
      ["other"],
    );
  });

  it("takes a Lease that was released as soon as it looks", async () => {
    const lease = createFakeLease();
    lease.edit(other);
    const one = start({ lease });
    await one.clock.step(1_000);
    lease.edit({ ...other, holder: "" });
    await one.clock.step(2_000);
    assert.equal(stateOf(one), "leads");
  });

  it("does not take a Lease that somebody deletes before its holder can know of it", async () => {
    const lease = createFakeLease();
    lease.edit(other);
    const one = start({ lease });
    await one.clock.step(8_000);
    lease.edit({ ...other, renewTime: "2026-01-01T00:00:08.000Z" });
    await one.clock.step(2_000);
    lease.edit(undefined);
    await one.clock.step(12_000);
    assert.equal(stateOf(one), "waits");
    await one.clock.step(4_000);
    assert.equal(stateOf(one), "leads");
  });

  it("stops waiting when it is told to", async () => {
    const lease = createFakeLease();
    lease.edit(other);
    const one = start({ lease });
    await one.clock.step(1_000);
    one.shutDown();
    await one.clock.step(0);
    assert.match(String(one.outcome), /SIGTERM/);
    await one.clock.step(60_000);
    assert.deepEqual(lease.writes, []);
  });

  it("waits for an API that is away, loudly", async () => {
    const lease = createFakeLease();
    lease.setAway(true);
    const one = start({ lease });
    await one.clock.step(600_000);
    assert.equal(stateOf(one), "waits");
    assert.ok(
      one.log.lines.some(
        ({ level, fields }) => level === "warn" && /ECONNREFUSED/.test(String(fields["error"])),
      ),
    );
    lease.setAway(false);
    await one.clock.step(2_000);
    assert.equal(stateOf(one), "leads");
  });

  it("begins anew when it stood still while it took the Lease", async () => {
    const lease = createFakeLease();
    const one = start({
      port: {
        ...lease,
        create: (record, signal) => {
          one.standStill(12_000);
          return lease.create(record, signal);
        },
      },
    });
    await one.clock.step(0);
    assert.equal(stateOf(one), "waits");
    await one.clock.step(2_000);
    assert.equal(stateOf(one), "leads");
    assert.equal(one.leadership?.holds(), true);
  });
});

describe("a leader", () => {
  it("leads no more 10 s after its last renewal, and serves on while the API is away", async () => {
    const one = await leader();
    await one.clock.step(6_000);
    one.lease.setAway(true);
    await one.clock.step(9_999);
    assert.equal(stateOf(one), "leads");
    await one.clock.step(1);
    assert.equal(stateOf(one), "serves");
    assert.equal(one.leadership.holds(), false);
    assert.match(String(one.leadership.leading.reason), /could not be renewed for 10 s/);
    await one.clock.step(3_600_000);
    assert.equal(stateOf(one), "serves");
    assert.equal(one.outcome, undefined);
  });

  it("is over when the API answers again, and never leads twice", async () => {
    const one = await leader();
    one.lease.setAway(true);
    await one.clock.step(60_000);
    one.lease.setAway(false);
    await one.clock.step(2_000);
    assert.equal(stateOf(one), "over");
    one.finishWork();
    await one.clock.step(0);
    assert.ok(one.outcome instanceof LeaseLostError);
    // It was still its own: the next one need not wait.
    assert.equal(one.lease.stored?.record.holder, "");
    const { length } = one.lease.writes;
    await one.clock.step(600_000);
    assert.equal(one.lease.writes.length, length);
  });

  it("is over when another leader is seen elsewhere, though the API is away", async () => {
    const seen = Promise.withResolvers<void>();
    const one = await leader({ superseded: (signal) => abortable(seen.promise, signal) });
    one.lease.setAway(true);
    await one.clock.step(60_000);
    assert.equal(stateOf(one), "serves");
    seen.resolve();
    await one.clock.step(0);
    assert.equal(stateOf(one), "over");
  });

  it("is over when another one has the Lease, which it leaves alone", async () => {
    const one = await leader();
    one.lease.edit(other);
    await one.clock.step(2_000);
    assert.equal(stateOf(one), "over");
    assert.match(String(one.leadership.leading.reason), /other has taken it/);
    one.finishWork();
    await one.clock.step(0);
    assert.ok(one.outcome instanceof LeaseLostError);
    assert.equal(one.lease.stored?.record.holder, "other");
  });

  it("knows that its time is over before its timers do, after it stood still", async () => {
    const one = await leader();
    await one.clock.step(2_000);
    one.standStill(9_999);
    assert.equal(one.leadership.holds(), true);
    one.standStill(1);
    assert.equal(one.leadership.holds(), false);
    assert.equal(stateOf(one), "serves");
    // A renewal that goes through now makes it no leader again.
    await one.clock.step(4_000);
    assert.equal(stateOf(one), "over");
    assert.equal(one.leadership.holds(), false);
  });

  it("is stopped in time by an API that neither answers nor refuses", async () => {
    const one = await leader();
    await one.clock.step(2_000);
    one.lease.hold();
    await one.clock.step(9_999);
    assert.equal(stateOf(one), "leads");
    await one.clock.step(1);
    assert.equal(stateOf(one), "serves");
  });

  it("goes on after an outage that was short enough", async () => {
    const one = await leader();
    one.lease.setAway(true);
    await one.clock.step(7_000);
    one.lease.setAway(false);
    await one.clock.step(60_000);
    assert.equal(stateOf(one), "leads");
  });

  it("goes on when the answer to a renewal got lost, and when something else of the Lease was changed", async () => {
    const one = await leader();
    one.lease.loseNextAnswer();
    await one.clock.step(8_000);
    one.lease.touch();
    await one.clock.step(60_000);
    assert.equal(stateOf(one), "leads");
    assert.equal(one.lease.stored?.record.holder, "me");
    assert.equal(one.lease.stored.record.transitions, 0);
  });

  it("makes the Lease anew when somebody deleted it", async () => {
    const one = await leader();
    one.lease.edit(undefined);
    await one.clock.step(6_000);
    assert.equal(stateOf(one), "leads");
    assert.equal(one.lease.stored?.record.holder, "me");
  });

  it("keeps the Lease after it was told to stop, until its work has ended", async () => {
    const one = await leader();
    one.shutDown();
    await one.clock.step(60_000);
    assert.equal(stateOf(one), "leads");
    assert.equal(one.lease.stored?.record.holder, "me");
    one.finishWork();
    await one.clock.step(0);
    assert.equal(one.outcome, "done");
    assert.equal(one.lease.stored.record.holder, "");
  });

  it("releases the Lease, and says why it ended, when its work fails", async () => {
    const one = await leader();
    one.finishWork(new Error("the work failed"));
    await one.clock.step(0);
    assert.match(String(one.outcome), /the work failed/);
    assert.equal(one.lease.stored?.record.holder, "");
  });

  it("releases the Lease also if a renewal is under way at that moment", async () => {
    const one = await leader();
    const release = one.lease.hold();
    await one.clock.step(2_000);
    one.finishWork();
    await one.clock.step(0);
    release();
    await one.clock.step(0);
    assert.equal(one.outcome, "done");
    assert.equal(one.lease.stored?.record.holder, "");
  });

  it("ends although the Lease cannot be released", async () => {
    const one = await leader();
    one.lease.hold();
    one.finishWork();
    await one.clock.step(5_000);
    assert.equal(one.outcome, "done");
    assert.ok(one.log.lines.some(({ message }) => message === "the Lease could not be released"));
  });
});

type Incident = {
  readonly at: number;
  readonly who: number;
  readonly what: "stands still" | "is cut off" | "loses answers" | "is killed";
  readonly ms: number;
};

const anyIncident: fc.Arbitrary<Incident> = fc.record({
  at: fc.integer({ min: 0, max: 90_000 }),
  who: fc.integer({ min: 0, max: 2 }),
  what: fc.constantFrom("stands still", "is cut off", "loses answers", "is killed"),
  ms: fc.integer({ min: 1, max: 40_000 }),
});

/** What one process did as leader, in the order in which it was done in the world. */
type Act = { readonly process: string; readonly at: number };

/** Three processes, started anew whenever they end, while all that is bad happens to them. */
async function live(incidents: readonly Incident[], latencyMs: number): Promise<readonly Act[]> {
  const clock = createFakeClock();
  const lease = createFakeLease();
  const acts: Act[] = [];
  const everything = new AbortController();
  const during = (who: number, what: Incident["what"]) =>
    incidents.find(
      (one) =>
        one.who === who &&
        one.what === what &&
        clock.now() - begin >= one.at &&
        clock.now() - begin < one.at + one.ms,
    );
  const begin = clock.now();

  const run = async (who: number, life: number): Promise<void> => {
    const dead = new AbortController();
    const { signal } = dead;
    const process = `${who}.${life}`;
    /** Nothing of it goes on while it stands still. */
    const awake = async () => {
      for (let still = during(who, "stands still"); still !== undefined; still = during(who, "stands still"))
        await clock.sleep(begin + still.at + still.ms - clock.now(), signal);
    };
    const own: Clock = {
      // Set wrong, each in another way.
      now: () => clock.now() + who * 1_000_000,
      sleep: async (ms, abort) => {
        await clock.sleep(ms, AbortSignal.any([abort, signal]));
        await awake();
        abort.throwIfAborted();
      },
    };
    const call = async <T>(work: () => Promise<T>): Promise<T> => {
      await clock.sleep(latencyMs, signal);
      if (during(who, "is cut off") !== undefined) return await new Promise<never>(() => undefined);
      const answer = await work();
      if (during(who, "loses answers") !== undefined) throw new Error("socket hang up");
      await clock.sleep(latencyMs, signal);
      await awake();
      return answer;
    };
    const work = async (leadership: Leadership) => {
      while (!leadership.leading.aborted) {
        if (leadership.holds()) acts.push({ process, at: clock.now() - begin });
        await own.sleep(400, signal);
      }
    };
    for (const { who: whose, what, at } of incidents)
      if (whose === who && what === "is killed" && at >= clock.now() - begin)
        clock.sleep(begin + at - clock.now(), everything.signal).then(
          () => dead.abort(new Error("SIGKILL")),
          () => undefined,
        );
    const options: LeadOptions = {
      port: {
        get: (abort) => call(() => lease.get(abort)),
        create: (record, abort) => call(() => lease.create(record, abort)),
        update: (record, version, abort) => call(() => lease.update(record, version, abort)),
      },
      identity: process,
      clock: own,
      steady: () => clock.now() - who * 5_000,
      random: () => 0.5,
      log: createRecordingLogger(),
      times: defaultLeaseTimes,
    };
    // What a killed process leaves behind never goes on.
    const stop = AbortSignal.any([everything.signal, signal]);
    await abortable(lead(options, work, stop), stop).catch(() => undefined);
    dead.abort(new Error("it has ended"));
    if (everything.signal.aborted) return;
    await clock.sleep(1_000, everything.signal);
    await run(who, life + 1);
  };

  const all = [0, 1, 2].map((who) => run(who, 0).catch(() => undefined));
  await clock.step(200_000);
  everything.abort(new Error("over"));
  await Promise.all(all);
  return acts;
}

describe("processes that want to lead", () => {
  it("B-24 lead one after the other, whatever happens to them, and one does soon after it is over", async function () {
    this.timeout(120_000);
    let takeovers = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyIncident, { maxLength: 8 }),
        fc.integer({ min: 0, max: 1_500 }),
        async (incidents, latencyMs) => {
          const acts = await live(incidents, latencyMs);
          const reigns = acts
            .map(({ process }) => process)
            .filter((process, index, every) => process !== every[index - 1]);
          takeovers += reigns.length - 1;
          assert.equal(new Set(reigns).size, reigns.length, `one came back: ${reigns.join(" ")}`);
          // The last incident is over after 130 s.
          assert.ok(
            acts.some(({ at }) => at > 170_000),
            "nobody leads in the end",
          );
        },
      ),
      { numRuns: 60 },
    );
    // Fifty or so, as the seed has it.
    assert.ok(takeovers > 20, `only ${takeovers} takeovers`);
  });
});

import assert from "node:assert/strict";
import { WireType } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { defaultLogLimits } from "../../../controller/bootstrap/log-limits.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { Result, type UpdateLogResponse } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { type FacadeInMemory, facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport, someRows } from "../../support/runner-reports.ts";
import { settles } from "../../support/settles.ts";

const mebibyte = 1024 * 1024;
const indicesOf = ({ facade }: FacadeInMemory) => facade.logs.map(({ index, noMore }) => [index, noMore]);
/** Settles when the rows are there. */
const stored = ({ facade }: FacadeInMemory, rows: readonly string[]) =>
  settles(`${rows.length} rows are stored`, () => facade.rows.length >= rows.length).then(() =>
    assert.deepEqual(facade.rows, rows),
  );
const ackOf = async (answer: Promise<UpdateLogResponse>) => (await answer).ackIndex;

describe("log rows on their way", () => {
  it("are counted from Gitea's rows on, and answered in the runner's numbers", async () => {
    const parts = facadeInMemory({ logRows: 3 });
    const relay = parts.newRelay();
    assert.equal(await ackOf(relay.updateLog(someRows(0, ["a", "b"]))), 2n);
    await stored(parts, ["a", "b"]);
    assert.equal(await ackOf(relay.updateLog(someRows(2, ["c"], true))), 3n);
    await stored(parts, ["a", "b", "c"]);
    assert.deepEqual(indicesOf(parts), [
      [3n, false],
      [5n, true],
    ]);
    assert.deepEqual(
      parts.facade.logs.map(({ taskId }) => taskId),
      [42n, 42n],
    );
  });

  it("are taken at once while the facade is away for minutes, and come when it is back", async () => {
    const parts = facadeInMemory({ logRows: 3 });
    const { clock, facade, newRelay } = parts;
    const relay = newRelay();
    facade.fail("updateLog", Code.Unavailable);
    const rows: string[] = [];
    for (let i = 0; i < 60; i++) {
      rows.push(`row ${i}`);
      assert.equal(await ackOf(relay.updateLog(someRows(i, rows.slice(i)))), BigInt(i + 1));
      await clock.step(5_000);
    }
    const before = clock.now();
    rows.push("last");
    assert.equal(await ackOf(relay.updateLog(someRows(60, ["last"], true))), 61n);
    assert.equal(clock.now(), before);
    facade.recover("updateLog");
    await clock.step(defaultTimes.retryEvery);
    await stored(parts, rows);
    assert.equal(facade.logs.at(-1)?.noMore, true);
  });

  it("are asked about when an answer was lost, and go on from what is stored", async () => {
    const parts = facadeInMemory({ logRows: 3 });
    const { clock, facade, newRelay } = parts;
    const relay = newRelay();
    facade.loseNextAnswer("updateLog");
    await relay.updateLog(someRows(0, ["a", "b"]));
    await facade.called("updateLog");
    await relay.updateLog(someRows(2, ["c"]));
    await clock.step(defaultTimes.call);
    await clock.step(defaultTimes.retryEvery);
    await stored(parts, ["a", "b", "c"]);
    const [first, question, rest] = facade.logs;
    assert.deepEqual([first?.index, question?.rows.length, rest?.index], [3n, 0, 5n]);
    assert.ok(question !== undefined && question.index > 1_000_000n);
  });

  it("go into one call at a time, together with those that came meanwhile", async () => {
    const parts = facadeInMemory();
    const { clock, facade, newRelay } = parts;
    const relay = newRelay();
    facade.hangNext("updateLog");
    await relay.updateLog(someRows(0, ["a"]));
    await facade.called("updateLog");
    await relay.updateLog(someRows(1, ["b"]));
    await relay.updateLog(someRows(2, ["c"]));
    await settle();
    assert.equal(facade.calls.length, 1);
    await clock.step(defaultTimes.call);
    await clock.step(defaultTimes.retryEvery);
    await stored(parts, ["a", "b", "c"]);
    assert.equal(facade.logs.at(-1)?.rows.length, 3);
  });

  it("are not forgotten when they come while a call is under way that goes well", async () => {
    const parts = facadeInMemory();
    const relay = parts.newRelay();
    await relay.updateLog(someRows(0, ["a"]));
    await parts.facade.called("updateLog");
    assert.equal(parts.facade.rows.length, 0);
    await relay.updateLog(someRows(1, ["b"]));
    await stored(parts, ["a", "b"]);
  });

  it("are split when they are too many for one call, and only the last part says that no more follow", async () => {
    const parts = facadeInMemory({ logRows: 3 });
    const rows = Array.from({ length: 20 }, (_, number) => `${number}`.padEnd(mebibyte, "."));
    assert.equal(await ackOf(parts.newRelay().updateLog(someRows(0, rows, true))), 20n);
    await stored(parts, rows);
    assert.deepEqual(indicesOf(parts), [
      [3n, false],
      [10n, false],
      [17n, true],
    ]);
  });

  it("are told to gitea-runner from where a gap in its own counting begins", async () => {
    const parts = facadeInMemory({ logRows: 3 });
    const relay = parts.newRelay();
    await relay.updateLog(someRows(0, ["a"]));
    assert.equal(await ackOf(relay.updateLog(someRows(5, ["f"], true))), 1n);
    assert.equal(await ackOf(relay.updateLog(someRows(0, []))), 0n);
    await stored(parts, ["a"]);
  });

  it("are dropped quietly when Gitea has closed the log, and counted", async () => {
    const { facade, log, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateLog", Code.AlreadyExists);
    assert.equal(await ackOf(relay.updateLog(someRows(0, ["a", "b"]))), 2n);
    assert.deepEqual((await log.line("log rows lost")).fields, { rows: 2 });
    assert.equal(await ackOf(relay.updateLog(someRows(2, ["c"], true))), 3n);
    await settle();
    assert.equal(facade.calls.length, 1);
  });

  it("keep fields of a call that are not known", async () => {
    const unknown = [{ no: 90, wireType: WireType.Varint, data: new Uint8Array([7]) }];
    const parts = facadeInMemory();
    const request = someRows(0, ["a"]);
    request.$unknown = unknown;
    await parts.newRelay().updateLog(request);
    await stored(parts, ["a"]);
    assert.deepEqual(parts.facade.logs[0]?.$unknown, unknown);
  });

  it("are told about once for each reason that a call fails", async () => {
    const parts = facadeInMemory();
    const { clock, facade, log, newRelay } = parts;
    facade.fail("updateLog", Code.Unavailable);
    await newRelay().updateLog(someRows(0, ["a"]));
    await clock.step(30_000);
    facade.recover("updateLog");
    await clock.step(defaultTimes.retryEvery);
    await stored(parts, ["a"]);
    assert.deepEqual(
      log.lines.map(({ message, fields }) => [message, fields["call"]]),
      [
        ["facade does not answer yet", "UpdateLog"],
        ["facade answers again", "UpdateLog"],
      ],
    );
  });
});

describe("a full log spool", () => {
  const limits = { ...defaultLogLimits, spool: 4 * mebibyte, batch: mebibyte };
  const rows = Array.from({ length: 40 }, (_, number) => `${number}`.padEnd(250_000, "."));
  const isMarker = (row: string) => row.includes("dropped here");

  it("makes gitea-runner wait for room while rows flow, and loses none", async () => {
    const parts = facadeInMemory();
    const relay = parts.newRelay({ limits });
    let sent = 0;
    while (sent < rows.length) sent = Number(await ackOf(relay.updateLog(someRows(sent, rows.slice(sent)))));
    await stored(parts, rows);
  });

  it("has gitea-runner send the rest again when there is no room for a while", async () => {
    const parts = facadeInMemory();
    const { clock, facade, newRelay } = parts;
    const relay = newRelay({ limits });
    facade.hangNext("updateLog");
    const waiting = relay.updateLog(someRows(0, rows));
    await clock.step(defaultTimes.room - 1);
    let answered = false;
    const answer = waiting.finally(() => (answered = true));
    await settle();
    assert.equal(answered, false);
    await clock.step(1);
    const taken = Number(await ackOf(answer));
    assert.ok(taken > 0 && taken < rows.length, `${taken}`);
    await clock.step(defaultTimes.call);
    for (let sent = taken; sent < rows.length;) {
      const again = relay.updateLog(someRows(sent, rows.slice(sent)));
      await clock.step(defaultTimes.retryEvery);
      sent = Number(await ackOf(again));
    }
    await stored(parts, rows);
  });

  it("takes all at once while the facade is away, and says in the log what it has dropped", async () => {
    const { clock, facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay({ limits });
    facade.fail("updateLog", Code.Unavailable);
    await relay.updateLog(someRows(0, rows.slice(0, 10)));
    await clock.step(60_000);
    const before = clock.now();
    assert.equal(await ackOf(relay.updateLog(someRows(10, rows.slice(10), true))), 40n);
    assert.equal(clock.now(), before);
    await clock.step(540_000);
    facade.recover("updateLog");
    await clock.step(defaultTimes.retryEvery);
    await settles("the last row is stored", () => facade.rows.at(-1) === rows.at(-1));
    const markers = facade.rows.filter(isMarker);
    const kept = facade.rows.filter((row) => !isMarker(row));
    assert.deepEqual(markers, [
      `${40 - kept.length} log rows were dropped here: the runner's controller could not be reached for 10 min.`,
    ]);
    assert.equal(kept[0], rows[0]);

    const steps = [
      { id: 0n, logIndex: 0n, logLength: 39n },
      { id: 1n, logIndex: 39n, logLength: 1n },
    ];
    await relay.updateTask(aReport({ steps }));
    await settles("the state is told", () => facade.states.at(-1)?.state?.steps.length === 2);
    const last = BigInt(facade.rows.length - 1);
    assert.deepEqual(
      facade.states.at(-1)?.state?.steps.map(({ logIndex, logLength }) => [logIndex, logLength]),
      [
        [3n, last],
        [3n + last, 1n],
      ],
    );
  });

  it("takes gitea-runner's last rows in time, whatever must be dropped for that", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay({ limits });
    facade.hangNext("updateLog");
    const answer = relay.updateLog(someRows(0, rows, true));
    await clock.step(defaultTimes.room);
    assert.equal(await ackOf(answer), 40n);
    await clock.step(defaultTimes.call);
    await settles("the last row is stored", () => facade.rows.at(-1) === rows.at(-1));
    assert.match(facade.rows.find(isMarker) ?? "", /they came faster than Gitea takes them/);
  });
});

describe("a Gitea that cannot store logs, but answers", () => {
  it("is told about once, gets the rows when it can again, and gitea-runner does not wait for it", async () => {
    const parts = facadeInMemory();
    const { clock, facade, log, newRelay } = parts;
    const relay = newRelay({ limits: { ...defaultLogLimits, spool: 2_000, piece: 300 } });
    facade.takesRows = false;
    const rows = Array.from({ length: 30 }, (_, index) => `row ${index}`);
    await relay.updateLog(someRows(0, rows.slice(0, 5)));
    await clock.step(20_000);
    const before = clock.now();
    assert.equal(await ackOf(relay.updateLog(someRows(5, rows.slice(5), true))), 30n);
    assert.equal(clock.now(), before);
    facade.takesRows = true;
    await clock.step(2 * defaultTimes.retryEvery);
    await settles("the last row is stored", () => facade.rows.at(-1) === "row 29");
    assert.match(facade.rows.join(), /could not be reached for 2\d s/);
    assert.equal(log.lines.length, 2);
  });
});

describe("the log of an executor that is told to end", () => {
  const told = "The executor was told to end while this job ran.";

  it("says so in its last row, which gitea-runner does not count, and stays open for the controller", async () => {
    const parts = facadeInMemory({ logRows: 3 });
    const relay = parts.newRelay({ stop: AbortSignal.abort() });
    assert.equal(await ackOf(relay.updateLog(someRows(0, ["a"]))), 1n);
    for (let i = 0; i < 2; i++) assert.equal(await ackOf(relay.updateLog(someRows(1, ["b"], true))), 2n);
    await stored(parts, ["a", "b"]);
    void relay.updateTask(aReport({ result: Result.FAILURE }));
    await stored(parts, ["a", "b", told]);
    await relay.sending;
    assert.ok(parts.facade.logs.every(({ noMore }) => !noMore));
  });

  it("says so when gitea-runner has ended without a word", async () => {
    const parts = facadeInMemory();
    const relay = parts.newRelay({ stop: AbortSignal.abort() });
    await relay.updateLog(someRows(0, ["a"]));
    relay.close(1, "gitea-runner ended.");
    await stored(parts, ["a", told]);
    await relay.sending;
    assert.ok(parts.facade.logs.every(({ noMore }) => !noMore));
  });

  it("is closed if the job had got through all of its steps, and says nothing of it", async () => {
    const parts = facadeInMemory();
    const relay = parts.newRelay({ stop: AbortSignal.abort() });
    await relay.updateLog(someRows(0, ["a"], true));
    const steps = [{ id: 0n, result: Result.SUCCESS }];
    await relay.updateTask(aReport({ result: Result.SUCCESS, steps }));
    await relay.sending;
    assert.deepEqual(parts.facade.rows, ["a"]);
    assert.equal(parts.facade.logs.at(-1)?.noMore, true);
  });

  it("does not say so when Gitea has ended the job before", async () => {
    const parts = facadeInMemory();
    const relay = parts.newRelay({ stop: AbortSignal.abort(), ended: Result.CANCELLED });
    await relay.updateLog(someRows(0, ["a"], true));
    await stored(parts, ["a"]);
    await settle();
    assert.deepEqual(parts.facade.rows, ["a"]);
  });
});

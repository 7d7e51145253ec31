import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { answered, failed, type LogCall, nextCall } from "../../../controller/bootstrap/log-calls.ts";
import { defaultLogLimits, type LogLimits } from "../../../controller/bootstrap/log-limits.ts";
import { ackIndexFor, append, hasTaken, withLastRow } from "../../../controller/bootstrap/log-reports.ts";
import {
  costOf,
  emptyLog,
  ended,
  type LogSpool,
  ownIndex,
  waitingRows,
} from "../../../controller/bootstrap/log-spool.ts";
import { LogRowSchema, UpdateLogRequestSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { someRows } from "../../support/runner-reports.ts";

/** A row takes 200 bytes beside its text: three rows are a piece, six a call, and sixteen fit in. */
const small: LogLimits = { spool: 3_600, piece: 660, batch: 1_320, row: 900 };
const start = Date.parse("2026-01-01T00:00:00Z");

type RowsCall = Extract<LogCall, { readonly kind: "rows" }>;

/** Gitea's log of a task, as Gitea keeps it. */
function createLog() {
  const rows: string[] = [];
  let closed = false;
  const store = (call: RowsCall, most = Infinity): number => {
    if (call.index > rows.length) return rows.length;
    const fresh = call.rows.slice(rows.length - call.index).slice(0, most);
    if (closed) assert.equal(fresh.length, 0, "rows behind the last one");
    rows.push(...fresh.map(({ content }) => content));
    closed ||= call.noMore && most === Infinity;
    return rows.length;
  };
  return { rows, store, isClosed: () => closed };
}

/** gitea-runner's side: what it was not told to be taken it sends again. */
function createReporter() {
  const written: string[] = [];
  let offset = 0;
  return {
    written,
    report: (fresh: number, noMore = false) => {
      for (let i = 0; i < fresh; i++) written.push(`row ${written.length}`);
      return someRows(offset, written.slice(offset), noMore);
    },
    heard: (ack: bigint) => {
      assert.ok(Number(ack) >= offset && Number(ack) <= written.length, `${ack} of ${offset}`);
      offset = Number(ack);
    },
  };
}

const outcomes = ["stored", "stored", "in part", "answer lost", "not arrived", "late"] as const;
type Event =
  | { readonly kind: "report"; readonly rows: number; readonly heard: boolean; readonly drop: boolean }
  | { readonly kind: "call"; readonly outcome: (typeof outcomes)[number]; readonly most: number };

const event = (drop: fc.Arbitrary<boolean>): fc.Arbitrary<Event> =>
  fc.oneof(
    fc.record({ kind: fc.constant("report"), rows: fc.nat(8), heard: fc.boolean(), drop }),
    fc.record({ kind: fc.constant("call"), outcome: fc.constantFrom(...outcomes), most: fc.nat(4) }),
  );

/** A call may hold more than half of what may wait. */
const batch = fc.constantFrom(small.batch, small.spool);

/** Lets a log go through all this, then lets it end in good order. */
function play(events: readonly Event[], limits: LogLimits) {
  const log = createLog();
  const runner = createReporter();
  let spool: LogSpool = emptyLog(limits);
  let late: RowsCall[] = [];
  let most = 0;
  const check = () => {
    most = Math.max(most, costOf(spool.pieces));
    assert.ok(spool.stored <= log.rows.length, "believed to be stored");
  };
  const call = (outcome: (typeof outcomes)[number], part: number) => {
    const next = nextCall(spool, start);
    ({ spool } = next);
    const { call: made } = next;
    if (made.kind === "none") return false;
    // Calls that were given up arrive whenever they like, but Gitea has one at a time.
    for (const one of late.splice(0, part)) log.store(one);
    if (outcome === "not arrived" || (outcome === "answer lost" && made.kind === "count"))
      spool = failed(spool, made, start);
    else if (made.kind === "count") spool = answered(spool, made, log.rows.length);
    else if (outcome === "late") {
      late = [...late, made];
      spool = failed(spool, made, start);
    } else {
      const stored = log.store(made, outcome === "in part" ? part : Infinity);
      spool = outcome === "answer lost" ? failed(spool, made, start) : answered(spool, made, stored);
    }
    return true;
  };
  for (const one of events) {
    if (one.kind === "report") {
      const report = runner.report(one.rows);
      spool = append(spool, report, one.drop);
      if (one.heard) runner.heard(ackIndexFor(spool, report));
    } else call(one.outcome, one.most);
    check();
  }
  for (let done = false; !done;) {
    const report = runner.report(0, true);
    spool = append(spool, report, false);
    runner.heard(ackIndexFor(spool, report));
    done = hasTaken(spool, report);
    if (!done) call("stored", 0);
    check();
  }
  for (let rounds = 0; call("stored", 0); rounds++) assert.ok(rounds < 1_000, "it does not come to an end");
  return { log, runner, spool, most };
}

describe("the log spool", () => {
  it("brings every row to Gitea once and in order, whatever becomes of reports and calls", () => {
    fc.assert(
      fc.property(fc.array(event(fc.constant(false)), { maxLength: 60, size: "max" }), (events) => {
        const { log, runner, spool, most } = play(events, small);
        assert.deepEqual(log.rows, runner.written);
        assert.ok(log.isClosed());
        assert.deepEqual([spool.lost, waitingRows(spool), spool.end.kind], [0, 0, "over"]);
        assert.ok(most <= small.spool);
      }),
      { numRuns: 500 },
    );
  });

  it("loses in the middle only what is too much, says how much that is, and knows where each row stands", () => {
    fc.assert(
      fc.property(fc.array(event(fc.boolean()), { maxLength: 80, size: "max" }), batch, (events, ofCall) => {
        const { log, runner, spool, most } = play(events, { ...small, batch: ofCall });
        let dropped = 0;
        for (const row of log.rows)
          dropped += Number(/^(\d+) log rows? (?:was|were) dropped/.exec(row)?.[1] ?? 0);
        const kept = log.rows.filter((row) => row.startsWith("row "));
        assert.equal(kept.length + dropped, runner.written.length);
        for (const [index, row] of runner.written.entries()) {
          const place = ownIndex(spool, index);
          if (kept.includes(row)) assert.equal(log.rows[place], row);
          else assert.ok(place === log.rows.length || !log.rows.slice(0, place + 1).includes(row));
        }
        assert.equal(ownIndex(spool, runner.written.length), log.rows.length);
        assert.ok(log.isClosed());
        // What was offered is never dropped: a call's rows may come on top.
        assert.ok(most <= small.spool + ofCall + small.piece, `${most}`);
      }),
      { numRuns: 500 },
    );
  });

  const full = (rows: number, since?: number): LogSpool => {
    const first = append(emptyLog(small), someRows(0, ["row 0"]), true);
    const broken =
      since === undefined ? first : failed(nextCall(first, since).spool, { kind: "count" }, since);
    const texts = Array.from({ length: rows }, (_, index) => `row ${index}`);
    return append(broken, someRows(0, texts), true);
  };
  const rowsOf = (spool: LogSpool, now = start) => {
    const { call } = nextCall({ ...spool, certain: true, batch: Infinity }, now);
    return call.kind === "rows" ? call.rows.map(({ content }) => content) : [];
  };

  it("keeps the beginning and the end of what is too much", () => {
    const rows = rowsOf(full(100, start), start + 600_000);
    assert.equal(rows[0], "row 0");
    assert.equal(rows.at(-1), "row 99");
    const markers = rows.filter((row) => !row.startsWith("row "));
    const count = 100 - (rows.length - 1);
    assert.deepEqual(markers, [
      `${count} log rows were dropped here: the runner's controller could not be reached for 10 min.`,
    ]);
  });

  it("says another reason when nothing has failed", () => {
    const [marker] = rowsOf(full(100)).filter((row) => !row.startsWith("row "));
    assert.match(marker ?? "", /log rows were dropped here: they came faster than Gitea takes them\.$/);
  });

  it("drops no row that Gitea may have", () => {
    const texts = Array.from({ length: 100 }, (_, index) => `row ${index}`);
    const wide = { ...small, batch: small.spool };
    const { spool, call } = nextCall(append(emptyLog(wide), someRows(0, texts.slice(0, 16)), true), start);
    const counted = answered(failed(spool, call, start), { kind: "count" }, 0);
    const again = nextCall(counted, start);
    const later = append(failed(again.spool, again.call, start), someRows(0, texts), true);
    assert.deepEqual(rowsOf(later).slice(0, 16), texts.slice(0, 16));
    assert.equal(answered(later, { kind: "count" }, 16).stored, 16);
  });

  it("leaves out rows behind a gap in gitea-runner's own counting", () => {
    const spool = append(emptyLog(small), someRows(0, ["a"]), true);
    const report = someRows(3, ["d"], true);
    assert.equal(append(spool, report, true), spool);
    assert.equal(ackIndexFor(spool, report), 1n);
    assert.equal(append(spool, someRows(-1, ["a", "b"]), true), spool);
  });

  it("asks how many rows are stored when an answer leaves all as it was", () => {
    const { spool, call } = nextCall(append(emptyLog(small), someRows(0, ["a"]), true), start);
    assert.equal(nextCall(answered(spool, call, 0), start).call.kind, "count");
  });

  it("takes no more than there is room for, and one row at least", () => {
    const texts = Array.from({ length: 100 }, (_, index) => `row ${index}`);
    const spool = append(emptyLog(small), someRows(0, texts, true), false);
    assert.equal(spool.accepted, Math.floor(small.spool / 205.9));
    assert.equal(spool.end.kind, "open");
    assert.equal(append(spool, someRows(spool.accepted, ["more"]), false), spool);
    const long = "x".repeat(800);
    assert.equal(append(emptyLog({ ...small, spool: 10 }), someRows(0, [long, "more"]), false).accepted, 1);
  });

  it("puts a word in place of a row that no call can hold", () => {
    const spool = append(emptyLog(small), someRows(0, ["a", "x".repeat(2_000_000), "b"]), false);
    assert.deepEqual(rowsOf(spool), [
      "a",
      "A log row of 2 MiB was left out: it is too large for one call.",
      "b",
    ]);
    assert.equal(spool.lost, 1);
  });

  it("sends less at once after a call that failed, and more again when calls go through", () => {
    const texts = Array.from({ length: 16 }, (_, index) => `row ${index}`);
    const spool = append(emptyLog(small), someRows(0, texts), true);
    const sizeOfNext = (of: LogSpool) => {
      const { call } = nextCall(of, start);
      return call.kind === "rows" ? call.rows.length : call.kind;
    };
    assert.equal(sizeOfNext(spool), 6);
    const first = nextCall(spool, start);
    const broken = failed(first.spool, first.call, start);
    assert.equal(sizeOfNext(broken), "count");
    const counted = answered(broken, { kind: "count" }, 0);
    assert.equal(sizeOfNext(counted), 3);
    const second = nextCall(counted, start);
    assert.equal(sizeOfNext(answered(second.spool, second.call, 3)), 6);
  });

  it("closes the log apart from its rows when Gitea has failed twice to store them with it", () => {
    let spool = append(emptyLog(small), someRows(0, ["a", "b"], true), true);
    const fail = () => {
      const { spool: offered, call } = nextCall(spool, start);
      assert.deepEqual(call.kind === "rows" && [call.rows.length, call.noMore], [2, true]);
      spool = answered(failed(offered, call, start), { kind: "count" }, 0);
    };
    fail();
    fail();
    const { spool: offered, call } = nextCall(spool, start);
    assert.deepEqual(call.kind === "rows" && [call.rows.length, call.noMore], [2, false]);
    const last = nextCall(answered(offered, call, 2), start);
    assert.deepEqual(last.call, { kind: "rows", index: 2, rows: [], noMore: true });
    assert.equal(answered(last.spool, last.call, 2).end.kind, "over");
  });

  it("is over when Gitea has fewer rows than it had", () => {
    const { spool, call } = nextCall(append(emptyLog(small), someRows(0, ["a", "b"]), true), start);
    const stored = answered(spool, call, 2);
    const more = append(stored, someRows(2, ["c"]), true);
    const after = answered(more, { kind: "count" }, 1);
    assert.deepEqual([after.end.kind, after.lost, waitingRows(after)], ["over", 1, 0]);
  });

  it("takes rows that come behind the last ones, and counts them as lost", () => {
    const closed = ended(append(emptyLog(small), someRows(0, ["a"]), true));
    const report = someRows(1, ["b", "c"]);
    const after = append(closed, report, false);
    assert.equal(ackIndexFor(after, report), 3n);
    assert.deepEqual([after.lost, rowsOf(after)], [2, ["a"]]);
  });

  it("adds a row of ours as the last one, which gitea-runner does not count", () => {
    const report = someRows(0, ["a"], true);
    const spool = withLastRow(
      append(emptyLog(small), report, true),
      create(LogRowSchema, { content: "ours" }),
    );
    assert.equal(ackIndexFor(append(spool, report, true), report), 1n);
    assert.deepEqual(rowsOf(spool), ["a", "ours"]);
  });

  it("holds as many bytes as it says, in memory too, however many rows come while nobody takes them", () => {
    const limits = { ...defaultLogLimits, spool: 8 * 1024 * 1024 };
    const texts = Array.from({ length: 2_000 }, (_, index) => `row ${index}`.padEnd(70, "."));
    const bytes = toBinary(UpdateLogRequestSchema, someRows(0, texts));
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    collect();
    const before = process.memoryUsage().heapUsed;
    let spool = emptyLog(limits);
    for (let round = 0; round < 100; round++) {
      const report = fromBinary(UpdateLogRequestSchema, bytes);
      report.index = BigInt(round * texts.length);
      spool = append(spool, report, true);
      assert.ok(costOf(spool.pieces) <= limits.spool);
    }
    collect();
    const grown = process.memoryUsage().heapUsed - before;
    assert.ok(grown < 1.5 * limits.spool, `${grown} bytes`);
    assert.equal(spool.accepted, 200_000);
    const gap = spool.pieces.find((piece) => piece.kind === "gap");
    assert.ok(gap !== undefined && gap.count > 150_000);
  });
});

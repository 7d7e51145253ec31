import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { noticeAnswer, noticeRefusedCall } from "../../../controller/health/notice-troubles.ts";
import {
  countTroubles,
  createTroubleBoard,
  troubleChecks,
  troubleKinds,
} from "../../../controller/health/troubles.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";

const start = Date.parse("2026-01-01T00:00:00Z");

function aBoard() {
  const clock = createFakeClock(start);
  const board = createTroubleBoard(clock);
  const said = () =>
    troubleChecks(board).flatMap((check) => {
      const problem = check.problem();
      return problem === undefined ? [] : [`${check.name}: ${problem}`];
    });
  return { clock, board, said, count: () => countTroubles(board) };
}

describe("the board of troubles", () => {
  it("is empty at first, with a check and a count for each kind", () => {
    const { board, said, count } = aBoard();
    assert.deepEqual(board.standing(), []);
    assert.deepEqual(said(), []);
    assert.deepEqual(Object.keys(count()), [...troubleKinds]);
    assert.deepEqual(new Set(Object.values(count())), new Set([0]));
  });

  it("keeps a trouble until it is over, with its first time and its last reason", async () => {
    const { clock, board, said } = aBoard();
    board.report({ kind: "unregistered", reason: "first" });
    await clock.step(86_400_000);
    board.report({ kind: "unregistered", reason: "second" });
    assert.deepEqual(board.standing(), [{ kind: "unregistered", reason: "second", since: start }]);
    assert.deepEqual(said(), ["unregistered: second, since 2026-01-01T00:00:00.000Z"]);
    board.over("capability");
    assert.equal(board.standing().length, 1);
    board.over("unregistered");
    board.over("unregistered");
    assert.deepEqual(board.standing(), []);
  });

  it("drops one that lasts for a time when it was not reported for that long, and begins it anew after that", async () => {
    const { clock, board } = aBoard();
    const report = () => board.report({ kind: "capability", reason: "r", lastsMs: 60_000 });
    report();
    await clock.step(59_000);
    report();
    await clock.step(59_999);
    assert.equal(board.standing()[0]?.since, start);
    await clock.step(1);
    assert.deepEqual(board.standing(), []);
    report();
    assert.equal(board.standing()[0]?.since, clock.now());
  });

  it("tells the troubles of one kind apart, and of several shows the oldest and how many there are", async () => {
    const { clock, board, said, count } = aBoard();
    board.report({ kind: "capability", about: "gitea-task-1", reason: "the first" });
    await clock.step(1_000);
    for (const about of ["gitea-task-2", "gitea-task-3"])
      board.report({ kind: "capability", about, reason: "another" });
    assert.equal(count()["capability"], 3);
    assert.deepEqual(said(), ["capability: the first, since 2026-01-01T00:00:00.000Z, and 2 more like it"]);
    board.over("capability", "gitea-task-1");
    assert.deepEqual(said(), ["capability: another, since 2026-01-01T00:00:01.000Z, and 1 more like it"]);
  });
});

describe("what is noticed", () => {
  it("is a capability that no key verifies, if the caller has the SVID of a live job: for a minute", async () => {
    const { clock, board, said } = aBoard();
    for (const kind of ["peer", "superseded", "foreign-task", "malformed", "register"])
      noticeRefusedCall(board, { kind, assignment: "gitea-task-7" });
    noticeRefusedCall(board, { kind: "capability", assignment: undefined });
    assert.deepEqual(said(), []);
    noticeRefusedCall(board, { kind: "capability", assignment: "gitea-task-7" });
    assert.match(said().join(), /^capability: no key in CAPABILITY_KEY_FILE verifies/);
    assert.doesNotMatch(said().join(), /gitea-task/);
    await clock.step(60_000);
    assert.deepEqual(said(), []);
  });

  it("is that Gitea does not know our registration, until it takes a call; another fault says neither", () => {
    const { board, said } = aBoard();
    noticeAnswer(board, "transient");
    assert.deepEqual(said(), []);
    noticeAnswer(board, "unregistered");
    noticeAnswer(board, "transient");
    assert.match(said().join(), /^unregistered: Gitea knows no runner with GITEA_RUNNER_UUID/);
    noticeAnswer(board, undefined);
    assert.deepEqual(said(), []);
  });
});

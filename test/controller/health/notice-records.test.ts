import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createNoticeRecords } from "../../../controller/health/notice-records.ts";
import { createTroubleBoard, troubleChecks } from "../../../controller/health/troubles.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

describe("records that cannot be read", () => {
  function noticing() {
    const clock = createFakeClock();
    const board = createTroubleBoard(clock);
    const log = createRecordingLogger();
    const notice = createNoticeRecords({ board, lastsMs: 90_000, log });
    const said = () => troubleChecks(board).flatMap((check) => check.problem() ?? []);
    return { clock, board, log, notice, said };
  }
  const invalid = [{ key: "gitea-task-7", reason: "it is not JSON" }];

  it("stand in health, without a name, until a list lacks them for long", async () => {
    const { clock, board, notice, said } = noticing();
    notice({ invalid: [], setAside: [] });
    assert.deepEqual(said(), []);
    notice({ invalid, setAside: ["gitea-task-7.unreadable", "gitea-task-8.unreadable"] });
    assert.equal(board.standing().length, 2, "one task's is one trouble");
    assert.match(
      said().join(),
      /^the state bucket holds a record that cannot be read.*, and 1 more like it$/,
    );
    assert.doesNotMatch(said().join(), /gitea-task/);
    await clock.step(60_000);
    notice({ invalid, setAside: [] });
    await clock.step(60_000);
    assert.equal(board.standing().length, 1);
    await clock.step(30_000);
    assert.deepEqual(said(), []);
  });

  it("are told in the log by their key, once", () => {
    const { log, notice } = noticing();
    for (let i = 0; i < 3; i++) notice({ invalid, setAside: ["gitea-task-8.unreadable"] });
    assert.deepEqual(
      log.lines.map(({ level, fields }) => [level, fields]),
      [
        ["error", invalid[0]],
        ["warn", { key: "gitea-task-8.unreadable" }],
      ],
    );
    notice({ invalid: [], setAside: [] });
    notice({ invalid, setAside: [] });
    assert.equal(log.lines.length, 3, "it came again");
  });
});

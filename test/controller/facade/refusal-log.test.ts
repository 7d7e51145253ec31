import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createRefusalLog } from "../../../controller/facade/refusal-log.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

const spiffeId = "spiffe://example.org/ci/acme/widgets/build";

describe("the log of refusals", () => {
  const start = () => {
    const clock = createFakeClock();
    const log = createRecordingLogger();
    const counted: string[] = [];
    const refusals = createRefusalLog({ log, clock, count: (kind) => void counted.push(kind) });
    const connection = (kind: string, remoteAddress: string) =>
      refusals.connection({ kind, reason: "CERT_HAS_EXPIRED", remoteAddress });
    return { clock, log, counted, refusals, connection };
  };

  it("has a line a minute for each kind and peer, and counts all", async () => {
    const { clock, log, counted, refusals, connection } = start();
    for (let i = 0; i < 50; i++) {
      connection("expired", "10.0.0.1");
      connection("expired", "10.0.0.2");
      refusals.call({
        kind: "capability",
        method: "FetchTask",
        reason: "no key",
        spiffeId,
        assignment: undefined,
      });
      refusals.call({
        kind: "foreign-task",
        method: "UpdateTask",
        reason: "task 7",
        spiffeId,
        assignment: undefined,
      });
    }
    assert.deepEqual(
      log.lines.map(({ level, message, fields }) => [level, message, fields["kind"]]),
      [
        ["warn", "connection refused", "expired"],
        ["warn", "connection refused", "expired"],
        ["warn", "caller refused", "capability"],
        ["warn", "caller refused", "foreign-task"],
      ],
    );
    assert.equal(counted.length, 200);
    await clock.step(60_000);
    connection("expired", "10.0.0.1");
    assert.deepEqual(log.lines[4]?.fields, {
      kind: "expired",
      reason: "CERT_HAS_EXPIRED",
      remoteAddress: "10.0.0.1",
      leftOut: 49,
    });
  });

  it("tells of port probes below warn", () => {
    const { log, counted, connection } = start();
    connection("probe", "10.0.0.1");
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ["debug"],
    );
    assert.deepEqual(counted, ["probe"]);
  });

  it("names the peer by its ID where it is proved, whatever its address", () => {
    const { log, refusals } = start();
    for (const remoteAddress of ["10.0.0.1", "10.0.0.2"])
      refusals.connection({ kind: "too-many", reason: "too many", remoteAddress, spiffeId });
    assert.equal(log.lines.length, 1);
  });
});

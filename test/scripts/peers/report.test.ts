import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createReport } from "../../../scripts/peers/report.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";

describe("the report on long work", () => {
  const record = (isTTY: boolean) => {
    const written: string[] = [];
    return { written, stream: { isTTY, write: (text: string) => written.push(text) } };
  };

  it("is plain lines where there is no terminal", async () => {
    const { written, stream } = record(false);
    const clock = createFakeClock();
    const report = createReport(stream, clock);
    report.note("nats-server 1.2.3", "waiting");
    const step = report.begin("nats-server 1.2.3", "building");
    step.detail("7 packages");
    await clock.step(16_000);
    step.end("done");
    await clock.step(60_000);
    assert.deepEqual(written, [
      "nats-server 1.2.3: waiting\n",
      "nats-server 1.2.3: building\n",
      "nats-server 1.2.3: building (15 s, 7 packages)\n",
      "nats-server 1.2.3: building (16 s, 7 packages): done\n",
    ]);
  });

  it("is one line that ticks, and bold names, on a terminal", async () => {
    const { written, stream } = record(true);
    const clock = createFakeClock();
    const step = createReport(stream, clock).begin("gitea", "building");
    await clock.step(2_000);
    step.end("failed");
    const name = "\u001B[1mgitea\u001B[0m";
    assert.deepEqual(written, [
      `${name}: building (0 s)`,
      `\r\u001B[2K${name}: building (1 s)`,
      `\r\u001B[2K${name}: building (2 s)`,
      `\r\u001B[2K${name}: building (2 s): failed\n`,
    ]);
  });
});

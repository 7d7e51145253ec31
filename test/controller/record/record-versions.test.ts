import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "mocha";
import { phaseNames } from "../../../controller/assignment/record.ts";
import { decodeRecord, encodeRecord } from "../../../controller/record/record-codec.ts";
import { withMore } from "../../support/newer-version/with-more.ts";

/** Records as this form has them since its beginning; a line is only ever added here. */
const lines = readFileSync(`${import.meta.dirname}/stored-records.jsonl`, "utf8")
  .trim()
  .split("\n");

function read(text: string) {
  const decoded = decodeRecord(Buffer.from(text));
  assert.ok(decoded.ok, decoded.ok ? "" : decoded.reason);
  return decoded;
}

describe("records over a change of version", () => {
  it("are there in every phase", () => {
    const phases = new Set(lines.map((line) => read(line).record.phase.name));
    assert.deepEqual([...phases].toSorted(), phaseNames.toSorted());
  });

  for (const line of lines) {
    const { phase } = read(line).record;

    it(`of an older version are read, and mean the same: ${phase.name}`, () => {
      const { record, writer } = read(line);
      assert.deepEqual(JSON.parse(Buffer.from(encodeRecord(record, writer)).toString()), JSON.parse(line));
    });

    it(`of a newer version with more fields are read, without those, when this one comes back: ${phase.name}`, () => {
      assert.deepEqual(read(JSON.stringify(withMore(JSON.parse(line)))), read(line));
    });
  }

  it("of a newer version with a reason that only that one knows tell another one, and the name", () => {
    const more = lines.map((line) => line.replaceAll(/"reason":"\w+"/g, '"reason":"struck_by_lightning"'));
    const records = more.map((line) => read(line).record);
    const told = records.flatMap(({ attempts: { lost }, phase }) => [
      ...(lost === undefined ? [] : [lost]),
      ...(phase.name === "ending" && phase.end.by === "controller" && phase.end.failure !== undefined
        ? [phase.end.failure]
        : []),
    ]);
    assert.deepEqual(
      told.map(({ reason, evidence }) => [reason, evidence.split(":")[0]]),
      [
        ["start_failed", "struck_by_lightning"],
        ["no_result", "struck_by_lightning"],
      ],
    );
  });

  it("of a newer version in a phase that only that one knows cannot be read, and say so", () => {
    for (const line of lines) {
      const decoded = decodeRecord(
        Buffer.from(line.replace(/"phase":\{"name":"\w+"/, '"phase":{"name":"frozen"')),
      );
      assert.ok(!decoded.ok);
      assert.match(decoded.reason, /^record\.phase/);
    }
  });
});

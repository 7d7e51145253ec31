import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "mocha";
import { readLine, sealLine } from "../../../controller/identity/sealed-line.ts";
import { openPart, type PartOf, sealPart } from "../../../controller/record/report-part.ts";
import { anAssignment } from "../../support/builders.ts";
import { testKeyRing } from "../../support/jetstream.ts";
import { more } from "../../support/newer-version/with-more.ts";

const ring = testKeyRing(1);
const part: PartOf = {
  assignmentId: anAssignment().id,
  report: { result: "success", key: "a", parts: 2, bytes: 10 },
  part: 1,
};

describe("a part of a report", () => {
  it("of a newer version with more in clear is opened without that", () => {
    const bytes = Buffer.from("words");
    const header = readLine(sealPart(ring, part, bytes, randomBytes))?.value as object;
    const newer = sealLine(ring, { ...header, ...more }, bytes, randomBytes);
    assert.deepEqual(openPart(ring, part, newer), { kind: "opened", bytes });
  });
});

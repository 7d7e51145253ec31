import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { InvalidAssignmentError } from "../../../../controller/assignment/errors.ts";
import { executorAnnotations, type Texts } from "../../../../controller/assignment/executor-metadata.ts";
import {
  annotationLabels,
  annotationsIn,
  maxChunks,
} from "../../../../controller/backends/vm/annotation-labels.ts";
import { anAssignment, anExecutorMetadata } from "../../../support/builders.ts";

const chunksLabel = "ci.ddupan.top/annotation-chunks";

/** What the server takes for metadata, and Kubernetes for labels. */
const labelPrefix = /^(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const labelName = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/;

function assertLegal(labels: Texts): void {
  for (const [key, value] of Object.entries(labels)) {
    const [prefix = "", name = "", ...more] = key.split("/");
    assert.deepEqual(more, []);
    assert.ok(prefix.length <= 253 && labelPrefix.test(prefix), key);
    assert.ok(name.length <= 63 && labelName.test(name), key);
    assert.ok(value.length <= 63 && labelValue.test(value) && !value.endsWith("\n"), value);
  }
}

/** Bytes whose base64url is full of `-` and `_`, among others. */
const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc
    .array(fc.constantFrom("?", ">", "~", "ÿ", "þ", "/", "\n"), { maxLength: 200 })
    .map((all) => all.join("")),
);
const anyAnnotations = fc.dictionary(anyText, anyText, { maxKeys: 6, noNullPrototype: true });
const fitting = anyAnnotations.filter((texts) => Buffer.byteLength(JSON.stringify(texts)) < 2_900);

/** As the older form was: cut anywhere. */
function unguarded(annotations: Texts): Texts {
  const text = Buffer.from(JSON.stringify(annotations)).toString("base64url");
  const chunks = text.match(/.{1,63}/g) ?? [];
  return Object.fromEntries(
    chunks.map((chunk, index) => [`ci.ddupan.top/annotations-${String(index).padStart(3, "0")}`, chunk]),
  );
}

const invalid = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof InvalidAssignmentError, String(error));
  assert.match(error.message, pattern);
  return true;
};

describe("annotations as labels", () => {
  it("B-61 come back as they were, whatever is in them, and every label is a legal one", () => {
    fc.assert(
      fc.property(fitting, (annotations) => {
        const labels = annotationLabels(annotations);
        assertLegal(labels);
        assert.deepEqual(annotationsIn({ "ci.ddupan.top/owner": "x", ...labels }), annotations);
      }),
      { numRuns: 500 },
    );
  });

  it("B-61 are legal where a chunk begins or ends with what no label may", () => {
    let cut = 0;
    for (let length = 0; length < 200; length++) {
      const annotations = { a: `${"b".repeat(length % 7)}${"~?>".repeat(length)}` };
      const labels = annotationLabels(annotations);
      assertLegal(labels);
      cut += Object.values(unguarded(annotations)).filter((chunk) => !labelValue.test(chunk)).length;
      assert.deepEqual(annotationsIn(labels), annotations);
    }
    assert.ok(cut > 100, "without guards many of these would have been refused");
  });

  it("B-61 are the same labels for the same annotations in any order", () => {
    fc.assert(
      fc.property(fitting, (annotations) => {
        const reversed = Object.fromEntries(Object.entries(annotations).toReversed());
        assert.deepEqual(annotationLabels(reversed), annotationLabels(annotations));
      }),
    );
  });

  it("B-61 are an error if a chunk is missing, changed, one too many or in another's place", () => {
    const labels = annotationLabels({ a: "x".repeat(500) });
    const keys = Object.keys(labels).filter((key) => key !== chunksLabel);
    assert.ok(keys.length > 10);
    for (const key of keys) {
      const { [key]: chunk = "", ...others } = labels;
      assert.throws(() => annotationsIn(others), invalid(/^ci\.ddupan\.top\/annotation/));
      const changed = { ...labels, [key]: chunk.replace(/.z$/, (end) => (end === "AAz" ? "BBz" : "AAz")) };
      assert.throws(() => annotationsIn(changed), invalid(/^ci\.ddupan\.top\/annotation/));
    }
    const [first = "", second = ""] = keys;
    const exchanged = { ...labels, [first]: labels[second] ?? "", [second]: labels[first] ?? "" };
    assert.throws(() => annotationsIn(exchanged), invalid(/annotation-chunks does not fit/));
    const further = { ...labels, [`ci.ddupan.top/annotations-0${keys.length}`]: "aQUJDz" };
    assert.throws(() => annotationsIn(further), invalid(/annotation-chunks does not fit/));
    const twice = { ...labels, "ci.ddupan.top/annotations-0000": labels[first] ?? "" };
    assert.throws(() => annotationsIn(twice), invalid(/is there instead of/));
    const unnumbered = { ...labels, "ci.ddupan.top/annotations-x": "a" };
    assert.throws(() => annotationsIn(unnumbered), invalid(/annotations-x has no number/));
    assert.throws(() => annotationsIn({}), invalid(/annotations-000 is missing/));
  });

  it("B-61 are read in the old form too, which has no guards", () => {
    fc.assert(
      fc.property(fitting, (annotations) => {
        assert.deepEqual(annotationsIn(unguarded(annotations)), annotations);
      }),
    );
    const labels = unguarded({ a: "x".repeat(500) });
    const { "ci.ddupan.top/annotations-003": _, ...others } = labels;
    assert.throws(() => annotationsIn(others), invalid(/annotations-004 is there instead of .*-003/));
  });

  it("B-61 are sorted by number, not as texts", () => {
    const annotations = { a: "x".repeat(50_000) };
    const labels = Object.entries(unguarded(annotations));
    assert.ok(labels.length > 1_001);
    assert.deepEqual(annotationsIn(Object.fromEntries(labels.toReversed())), annotations);
  });

  it("are an error if what they hold is no annotations", () => {
    for (const content of ["[]", "1", "null", '{"a":1}', '{"a":', "\u00ff"]) {
      const text = Buffer.from(content, content === "\u00ff" ? "latin1" : "utf8").toString("base64url");
      assert.throws(() => annotationsIn({ "ci.ddupan.top/annotations-000": text }), invalid(/hold no anno/));
    }
    assert.throws(
      () => annotationsIn({ "ci.ddupan.top/annotations-000": "no.base64" }),
      invalid(/hold no anno/),
    );
  });

  it("are refused when they are too long, which the error says, with what is", () => {
    const annotations = { "ci.ddupan.top/trust": "branch", "ci.ddupan.top/repository": "r".repeat(3_000) };
    assert.throws(
      () => annotationLabels(annotations),
      invalid(/need 67 labels and may have 64: ci\.ddupan\.top\/repository alone has 3000 characters/),
    );
  });

  it("of the longest names that Gitea gives fit", () => {
    const metadata = anExecutorMetadata({
      assignment: anAssignment({
        repository: `${"o".repeat(40)}/${"r".repeat(100)}`,
        jobKey: "j".repeat(255),
      }),
    });
    const labels = annotationLabels(executorAnnotations(metadata));
    assert.ok(Object.keys(labels).length < maxChunks / 2);
  });
});

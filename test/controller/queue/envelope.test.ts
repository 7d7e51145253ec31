import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { sealLine } from "../../../controller/identity/sealed-line.ts";
import { namedAssignment, open, seal } from "../../../controller/queue/envelope.ts";
import { aStoredTask, testKeyRing } from "../../support/jetstream.ts";
import { more } from "../../support/newer-version/with-more.ts";

const ring = testKeyRing(1);
const task = aStoredTask({ taskId: 9_223_372_036_854_775_807n, backend: "vm", trust: "fork" }, "hunter2");
const sealed = () => Buffer.from(seal(ring, task, randomBytes));
const line = (bytes: Buffer) => bytes.subarray(0, bytes.indexOf(0x0a)).toString();

function withHeader(bytes: Buffer, change: (header: Record<string, unknown>) => void): Buffer {
  const header = JSON.parse(line(bytes)) as Record<string, unknown>;
  change(header);
  return Buffer.concat([Buffer.from(JSON.stringify(header)), bytes.subarray(bytes.indexOf(0x0a))]);
}

describe("the envelope of a task", () => {
  it("B-04 round-trips", () => {
    assert.deepEqual(open(ring, sealed()), {
      kind: "assignment",
      ...task,
      compressedTask: Buffer.from(task.compressedTask),
    });
  });

  it("B-04 holds an empty task and a large one, and adds little to either", () => {
    for (const size of [0, 1, 3_000_000]) {
      const compressedTask = randomBytes(size);
      const bytes = seal(ring, { ...task, compressedTask }, randomBytes);
      assert.ok(bytes.length < size + 500);
      const opened = open(ring, bytes);
      assert.ok(opened.kind === "assignment");
      assert.ok(compressedTask.equals(opened.compressedTask));
    }
  });

  it("says in clear for whom it is, and nothing of what the task holds", () => {
    const bytes = sealed();
    assert.match(line(bytes), /"id":"gitea-task-9223372036854775807".*"backend":"vm".*"trust":"fork"/);
    assert.equal(bytes.includes("hunter2"), false);
    assert.equal(bytes.includes(Buffer.from(ring[0].payload)), false);
  });

  it("never looks the same twice", () => {
    const [a, b] = [sealed(), sealed()];
    assert.notDeepEqual(a.subarray(a.indexOf(0x0a)), b.subarray(b.indexOf(0x0a)));
  });

  for (const [field, value] of [
    ["backend", "pod"],
    ["spiffeId", "spiffe://example.org/ci/acme/widgets/deploy"],
    ["repository", "acme/vault"],
    ["jobKey", "deploy"],
    ["trust", "branch"],
    ["fetchedAt", 0],
  ] as const) {
    it(`B-04 is refused when its ${field} was changed`, () => {
      const changed = withHeader(sealed(), (header) => {
        assert.notEqual(header[field], value);
        header[field] = value;
      });
      assert.deepEqual(open(ring, changed), {
        kind: "invalid",
        reason: "it was changed after it was sealed",
        assignmentId: task.assignment.id,
      });
    });
  }

  it("B-04 is refused when its id was changed, with the task id or without it", () => {
    const alone = withHeader(sealed(), (header) => Object.assign(header, { id: "gitea-task-1" }));
    assert.deepEqual(open(ring, alone), { kind: "invalid", reason: "its id and task id differ" });
    const both = withHeader(sealed(), (header) => Object.assign(header, { id: "gitea-task-1", taskId: "1" }));
    assert.equal(open(ring, both).kind, "invalid");
  });

  it("is refused when its id is larger than any of Gitea's", () => {
    const large = { id: "gitea-task-9223372036854775808", taskId: "9223372036854775808" };
    const changed = withHeader(sealed(), (header) => Object.assign(header, large));
    assert.deepEqual(open(ring, changed), { kind: "invalid", reason: "its id and task id differ" });
  });

  it("B-04 is refused when its version is unknown, naming the assignment", () => {
    const newer = withHeader(sealed(), (header) => Object.assign(header, { version: 2 }));
    assert.deepEqual(open(ring, newer), {
      kind: "invalid",
      reason: "version 2 is not known",
      assignmentId: task.assignment.id,
    });
  });

  it("B-04 of a newer version with more in clear is opened without that, and refused when that was changed", () => {
    const header = { ...JSON.parse(line(sealed())), ...more } as object;
    const newer = Buffer.from(sealLine(ring, { ...header }, task.compressedTask, randomBytes));
    assert.deepEqual(open(ring, newer), open(ring, sealed()));
    const changed = open(
      ring,
      withHeader(newer, (fields) => delete fields["later"]),
    );
    assert.ok(changed.kind === "invalid");
    assert.equal(changed.reason, "it was changed after it was sealed");
  });

  it("is refused when any byte of it is another one", () => {
    const bytes = sealed();
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, difference) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] as number) ^ difference;
        assert.notEqual(open(ring, changed).kind, "assignment");
      }),
    );
  });

  it("never throws, whatever it is given", () => {
    const header = line(sealed());
    const withLine = fc.tuple(fc.constant(Buffer.from(`${header}\n`)), fc.uint8Array());
    fc.assert(
      fc.property(fc.oneof(fc.tuple(fc.uint8Array()), withLine), (parts) => {
        assert.equal(open(ring, Buffer.concat(parts)).kind, "invalid");
      }),
    );
  });

  it("tells fields that are missing without quoting any", () => {
    const bad = withHeader(sealed(), (header) => {
      delete header["jobKey"];
      header["backend"] = "hunter2";
    });
    const opened = open(ring, bad);
    assert.ok(opened.kind === "invalid");
    assert.equal(opened.reason, "its fields backend, jobKey are missing or malformed");
  });

  it("is sealed with the ring's first key and opened with any", () => {
    const old = seal(testKeyRing(1), task, randomBytes);
    const rotated = testKeyRing(2, 1);
    assert.equal(open(rotated, old).kind, "assignment");
    const fresh = seal(rotated, task, randomBytes);
    assert.equal(open(testKeyRing(2), fresh).kind, "assignment");
    assert.equal(open(testKeyRing(1), fresh).kind, "unknown-key");
  });

  it("names the key that it lacks, and the assignment", () => {
    assert.deepEqual(open(testKeyRing(2), sealed()), {
      kind: "unknown-key",
      keyId: ring[0].id,
      assignmentId: task.assignment.id,
    });
  });

  it("is refused when the key has the right name only", () => {
    const impostor = { ...testKeyRing(2)[0], id: ring[0].id };
    assert.equal(open([impostor], sealed()).kind, "invalid");
    assert.equal(open([impostor, ring[0]], sealed()).kind, "assignment");
  });

  it("names its assignment to those without the key", () => {
    assert.equal(namedAssignment(sealed()), task.assignment.id);
    assert.equal(namedAssignment(Buffer.from("garbage\n")), undefined);
  });
});

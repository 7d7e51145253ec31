import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { failureReasons } from "../../../controller/assignment/failure-reasons.ts";
import { phaseNames } from "../../../controller/assignment/record.ts";
import { backendKinds } from "../../../controller/assignment/backend-kind.ts";
import { eventNames } from "../../../controller/events/event-name.ts";
import { aboutOf, type AssignmentEvent, encodeEvent } from "../../../controller/events/event.ts";
import { historyOf } from "../../../controller/events/stored-event.ts";
import { anyEvidence } from "../../support/any-evidence.ts";
import { anAssignment, testStart } from "../../support/builders.ts";

const assignment = anAssignment().id;
const stamp = { at: testStart, controller: "controller-0" };
const message = (json: unknown, id = "") => ({ data: Buffer.from(JSON.stringify(json)), id });
const stored = (event: AssignmentEvent) => ({ data: Buffer.from(encodeEvent(event, stamp)), id: "" });

const anEvent: fc.Arbitrary<AssignmentEvent> = fc
  .record(
    {
      backend: fc.constantFrom(...backendKinds),
      event: fc.constantFrom(...eventNames),
      from: fc.constantFrom(...phaseNames),
      to: fc.constantFrom(...phaseNames),
      attempt: fc.integer({ min: 1, max: 3 }),
      executor: fc.constant("gitea-task-42-1-00000000"),
      reason: fc.constantFrom(...failureReasons),
      evidence: anyEvidence,
    },
    { requiredKeys: ["backend", "event"] },
  )
  .map((fields) => ({ assignment, ...fields }));

describe("event", () => {
  it("says when, where and what, its task as text", () => {
    const event = { assignment, backend: "pod", event: "executor_created", attempt: 2 } as const;
    assert.deepEqual(JSON.parse(encodeEvent(event, stamp)), {
      v: 1,
      at: testStart,
      assignment,
      taskId: "42",
      backend: "pod",
      event: "executor_created",
      attempt: 2,
      controller: "controller-0",
    });
  });

  it("is read back as it was written, small whatever its evidence is", () => {
    fc.assert(
      fc.property(anEvent, (event) => {
        const encoded = encodeEvent(event, stamp);
        assert.ok(Buffer.byteLength(encoded) < 4096);
        const { events, unreadable } = historyOf(assignment, [stored(event)]);
        assert.equal(unreadable, 0);
        assert.deepEqual(JSON.parse(JSON.stringify(events)), [JSON.parse(encoded)]);
      }),
    );
  });

  it("may be a backend's, and stands in that one's history", () => {
    const event = { backend: "vm", event: "circuit_opened", reason: "quota", evidence: "0 left" } as const;
    assert.deepEqual([aboutOf(event), aboutOf({ ...event, assignment })], ["vm", assignment]);
    const encoded = encodeEvent(event, stamp);
    assert.deepEqual(JSON.parse(encoded), { v: 1, at: testStart, ...event, controller: "controller-0" });
    const messages = [{ data: Buffer.from(encoded), id: "" }, stored({ ...event, assignment })];
    const { events, unreadable } = historyOf("vm", messages);
    assert.deepEqual([events.length, unreadable], [1, 1], "a job's event is not the backend's");
    assert.equal(historyOf("pod", messages).events.length, 0);
  });

  it("has no place for what hangs on the same object", () => {
    const planted = ["payload", "capability", "token", "spiffeId", "compressedTask", "environment", "record"];
    const secrets = Object.fromEntries(planted.map((field) => [field, `planted ${field}`]));
    const event = {
      assignment,
      backend: "vm",
      event: "failed",
      reason: "oom",
      ...secrets,
    } as AssignmentEvent;
    assert.doesNotMatch(encodeEvent(event, stamp), /planted/);
  });

  it("does not show a credential that a cluster's words contain", () => {
    const capability = `1.${"0a".repeat(16)}.${"aB3".repeat(14)}x`;
    const event = { assignment, backend: "pod", event: "failed" } as const;
    const encoded = encodeEvent({ ...event, evidence: `env ${capability}`, executor: capability }, stamp);
    assert.ok(!encoded.includes("aB3"));
    assert.ok(!encoded.includes("0a0a"));
  });

  it("is not made of an id that could be another subject", () => {
    for (const id of ["", "*", ">", "gitea-task-0", "gitea-task-1.x", "gitea-task-1 x"])
      assert.throws(() => encodeEvent({ assignment: id, backend: "pod", event: "offered" }, stamp), id);
  });
});

describe("history of an assignment", () => {
  it("is made of events of other versions too, without what they say differently", () => {
    const newer = { v: 7, at: 5, assignment, event: "teleported", attempt: "third", to: ["x"], mood: "good" };
    const { events, unreadable } = historyOf(assignment, [message(newer)]);
    assert.equal(unreadable, 0);
    assert.deepEqual(JSON.parse(JSON.stringify(events)), [{ v: 7, at: 5, assignment, event: "teleported" }]);
  });

  it("counts what is no event of this assignment, and goes on", () => {
    const good = stored({ assignment, backend: "pod", event: "acked" });
    const others = [
      { data: Buffer.from("no JSON"), id: "" },
      { data: Buffer.from([0xff, 0x00]), id: "" },
      message(null),
      message([1]),
      message({ v: 1, at: -1, assignment, event: "acked" }),
      message({ v: 1, at: 1, assignment }),
      message({ v: 1, at: 1, event: "acked" }),
      message({ v: 1, at: 1, event: "circuit_closed", backend: "pod" }),
      stored({ assignment: anAssignment({ taskId: 43n }).id, backend: "pod", event: "acked" }),
    ];
    const { events, unreadable } = historyOf(assignment, [...others, good]);
    assert.equal(unreadable, others.length);
    assert.deepEqual(
      events.map(({ event }) => event),
      ["acked"],
    );
  });

  it("tells an event once that was stored twice under one id", () => {
    const acked = stored({ assignment, backend: "pod", event: "acked" });
    const { events } = historyOf(assignment, [
      { ...acked, id: "a-1" },
      { ...acked, id: "a-1" },
      { ...acked, id: "a-2" },
      acked,
      acked,
    ]);
    assert.equal(events.length, 4);
  });

  it("shows no control character, whoever wrote it", () => {
    const hostile = {
      v: 1,
      at: 1,
      assignment,
      event: "\u001b[2Jacked",
      evidence: "a\nb",
      controller: "\u0007c",
    };
    const [event] = historyOf(assignment, [message(hostile)]).events;
    assert.equal(event?.event, "[2Jacked");
    assert.equal(event?.evidence, "a b");
    assert.equal(event?.controller, "c");
  });
});

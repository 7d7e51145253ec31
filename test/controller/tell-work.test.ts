import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { failureFor } from "../../controller/assignment/failure.ts";
import type { AssignmentRecord, PhaseName } from "../../controller/assignment/record.ts";
import type { RunnerEvent } from "../../controller/events/event.ts";
import { createTellWork, type TellWork } from "../../controller/tell-work.ts";
import type { WorkerEvent } from "../../controller/worker/backend-worker.ts";
import { anAssignment, anAttempt } from "../support/builders.ts";
import { inPhase } from "../support/phases.ts";

const { id: assignment } = anAssignment();

describe("what is done for a job, as its history tells it", () => {
  let record: AssignmentRecord | undefined;
  let told: RunnerEvent[];
  let tell: TellWork;
  beforeEach(() => {
    record = inPhase("queued");
    told = [];
    tell = createTellWork({
      assignments: { get: () => (record === undefined ? undefined : { record }) },
      publish: (event) => void told.push(event),
    });
  });
  const work = (...events: readonly WorkerEvent["event"][]) => {
    for (const event of events) tell.worker("pod", { event, assignment });
  };
  const names = () => told.map(({ event }) => event);
  const become = (name: PhaseName, number = 1) => {
    const next = inPhase(name);
    const { phase } = next;
    record =
      phase.name === "starting" ? { ...next, phase: { ...phase, attempt: anAttempt({ number }) } } : next;
  };

  it("is told once, however often a job that waits is looked at", () => {
    for (let i = 0; i < 100; i++) work("received", "capacity_acquired", "backend_retry");
    assert.deepEqual(names(), ["received", "capacity_acquired", "backend_retry"]);
  });

  it("is told again in the next phase, and for the next attempt", () => {
    work("received", "backend_retry");
    become("starting", 1);
    work("received", "received");
    become("starting", 2);
    work("received", "received");
    become("claimed");
    work("runner_claimed", "acked");
    assert.deepEqual(names(), [
      "received",
      "backend_retry",
      "received",
      "received",
      "runner_claimed",
      "acked",
    ]);
    assert.deepEqual(
      told.map((event) => "attempt" in event && event.attempt),
      [false, false, 1, 2, 1, 1],
    );
  });

  it("is told of a job whose record is gone as well, and nothing is kept of a job that is forgotten", () => {
    record = undefined;
    work("acked", "acked");
    assert.deepEqual(names(), ["acked", "acked"]);
    become("queued");
    work("received");
    tell.forget(assignment);
    work("received");
    assert.equal(names().length, 4);
  });

  it("says which executor, and why, where that is known", () => {
    tell.worker("pod", { event: "executor_created", assignment, executor: "one" });
    tell.executor("pod", { event: "executor_killed", assignment, executor: "one", why: "it was cancelled" });
    tell.circuit("vm", failureFor("quota", "0 left"));
    tell.circuit("vm", undefined);
    assert.deepEqual(told, [
      { assignment, backend: "pod", event: "executor_created", executor: "one" },
      { assignment, backend: "pod", event: "executor_killed", executor: "one", evidence: "it was cancelled" },
      { backend: "vm", event: "circuit_opened", reason: "quota", evidence: "0 left" },
      { backend: "vm", event: "circuit_closed" },
    ]);
  });
});

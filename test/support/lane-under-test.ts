import { randomBytes } from "node:crypto";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import { executorEnvironment } from "../../controller/assignment/executor-environment.ts";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import {
  type AssignmentRecord,
  currentAttempt,
  enterClaim,
  finish,
  type TaskResult,
} from "../../controller/assignment/record.ts";
import { defaultTimes, type Times } from "../../controller/assignment/times.ts";
import { createLane, type Lane, type LaneOptions } from "../../controller/backend-lane.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { type Assignments, createAssignments } from "../../controller/lifecycle/assignments.ts";
import { createFakeBackend, type FakeBackend, type FakeBackendWorld } from "../fakes/fake-backend.ts";
import { createFakeClock, type FakeClock, settle } from "../fakes/fake-clock.ts";
import { createFakeQueue, type FakeQueue } from "../fakes/fake-queue.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../fakes/fake-record-store.ts";
import { createFakeTasks, type FakeTasks } from "../fakes/fake-tasks.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { anExecutorMetadata } from "./builders.ts";

export type LaneUnderTest = {
  readonly lane: Lane;
  readonly backend: FakeBackend;
  readonly assignments: Assignments;
  readonly store: FakeRecordStore;
  readonly queue: FakeQueue;
  readonly tasks: FakeTasks;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  /** Starts the named loop ("worker", "reconciler", …), or all; ends with `stop`. */
  run(...names: readonly string[]): void;
  stop(): Promise<void>;
  /** The record's phase, and its attempt's number. */
  phase(assignment?: Assignment): string;
  /** The name of the current attempt's executor. */
  executor(assignment: Assignment): string;
  /** Enters a claim, as the facade does. */
  claim(assignment: Assignment, instance?: string): Promise<void>;
  /** Records an end, as the facade does when Gitea has taken the result. */
  end(assignment: Assignment, result?: TaskResult): Promise<void>;
  /** The names of the lane's events of that log message, in order. */
  events(message?: string): readonly string[];
};

export type LaneUnderTestOptions = {
  readonly kind?: BackendKind;
  readonly capacity?: number;
  readonly times?: Partial<Times>;
  readonly clock?: FakeClock;
  readonly store?: FakeRecordStore;
  readonly queue?: FakeQueue;
  readonly assignments?: Assignments;
  readonly tasks?: FakeTasks;
  readonly log?: RecordingLogger;
  /** An earlier lane's, after a restart. */
  readonly world?: FakeBackendWorld;
};

export const never = new AbortController().signal;

/** A lane as the controller makes it, with executors and a Gitea of the tests' own. */
export function createTestLane(
  options: Omit<LaneOptions, "beat" | "reportEnd" | "executorRequest" | "newNonce"> & {
    readonly tasks: FakeTasks;
  },
): Lane {
  const { tasks } = options;
  const facade = { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" };
  return createLane({
    ...options,
    beat: (taskId, signal) => tasks.beat(taskId, signal),
    reportEnd: ({ assignment }, result, reason, signal) =>
      tasks.reportEnd(assignment.taskId, result, reason, signal),
    executorRequest: (record) => {
      const attempt = currentAttempt(record);
      if (attempt === undefined) throw new Error("no attempt has begun");
      const { assignment } = record;
      return {
        metadata: anExecutorMetadata({ assignment, attempt }),
        environment: executorEnvironment(assignment, "a capability", facade),
      };
    },
    newNonce: () => randomBytes(16).toString("hex"),
  });
}

/** A lane as the controller makes it, between a backend, a queue, records and a Gitea that are fakes. */
export function createLaneUnderTest(options: LaneUnderTestOptions = {}): LaneUnderTest {
  const { kind = "pod", capacity = 2, world } = options;
  const clock = options.clock ?? createFakeClock();
  const store = options.store ?? createFakeRecordStore();
  const queue = options.queue ?? createFakeQueue(clock);
  const tasks = options.tasks ?? createFakeTasks();
  const log = options.log ?? createRecordingLogger();
  const assignments = options.assignments ?? createAssignments(store);
  const backend = createFakeBackend({ kind, clock, ...(world === undefined ? {} : { world }) });
  const lane = createTestLane({
    backend,
    capacity,
    assignments,
    queue,
    tasks,
    times: { ...defaultTimes, ...options.times },
    clock,
    log,
  });
  const stopping = new AbortController();
  const running: Promise<void>[] = [];
  const change = (assignment: Assignment, next: (record: AssignmentRecord) => AssignmentRecord) =>
    assignments.within(
      assignment.id,
      async () => void (await assignments.change(assignment.id, next, never)),
    );

  return {
    lane,
    backend,
    assignments,
    store,
    queue,
    tasks,
    clock,
    log,
    run: (...names) => {
      for (const task of [...lane.leaderTasks, ...lane.relayTasks])
        if (names.length === 0 || names.some((name) => task.name === `${kind} ${name}`))
          running.push(task.run(stopping.signal));
    },
    stop: async () => {
      stopping.abort(new Error("the test is over"));
      await Promise.all(running);
    },
    phase: (assignment) => {
      const record =
        assignment === undefined ? assignments.all()[0]?.record : assignments.get(assignment.id)?.record;
      const attempt = record === undefined ? undefined : currentAttempt(record);
      return [record?.phase.name ?? "unknown", ...(attempt === undefined ? [] : [attempt.number])].join(" ");
    },
    executor: (assignment) => {
      const record = assignments.get(assignment.id)?.record;
      const attempt = record === undefined ? undefined : currentAttempt(record);
      if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
      return executorName(assignment, attempt);
    },
    claim: async (assignment, instance = "instance-of-the-first") => {
      await change(assignment, (record) => {
        const outcome = enterClaim(record, { instance, logRows: 0, at: clock.now() });
        return outcome.kind === "claimed" ? outcome.record : record;
      });
      await settle();
    },
    end: async (assignment, result = "success") => {
      await change(assignment, (record) => finish(record, result, clock.now()));
      await settle();
    },
    events: (message = "assignment transition") =>
      log.lines.filter((line) => line.message === message).map(({ fields }) => String(fields["event"])),
  };
}

import { randomBytes } from "node:crypto";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { AssignmentEvent } from "../../controller/assignment/event.ts";
import { executorEnvironment } from "../../controller/assignment/executor-environment.ts";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import {
  type AssignmentRecord,
  currentAttempt,
  type TaskResult,
} from "../../controller/assignment/record.ts";
import { defaultTimes, type Times } from "../../controller/assignment/times.ts";
import { type Assignments, createAssignments } from "../../controller/lifecycle/assignments.ts";
import { createKeyedQueue, type KeyedQueue } from "../../controller/platform/keyed-queue.ts";
import { createSlots, type Slots } from "../../controller/slots/slots.ts";
import { type BackendWorker, createBackendWorker } from "../../controller/worker/backend-worker.ts";
import type { UnreadableMessage } from "../../controller/worker/delivery.ts";
import { createFakeBackend, type FakeBackend, type FakeBackendWorld } from "../fakes/fake-backend.ts";
import { createFakeClock, type FakeClock, settle } from "../fakes/fake-clock.ts";
import { createFakeLogs, type FakeLogs } from "../fakes/fake-logs.ts";
import { createFakeQueue, type FakeQueue } from "../fakes/fake-queue.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../fakes/fake-record-store.ts";
import { createFakeTasks, type FakeTasks } from "../fakes/fake-tasks.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { anExecutorMetadata } from "./builders.ts";

export type LoopName = keyof typeof loops;

const loops = { worker: "work", "keep-alive": "keepAlive", "waiting rows": "tellWaiting" } as const;

export type LaneUnderTest = {
  readonly worker: BackendWorker;
  readonly slots: Slots;
  readonly backend: FakeBackend;
  readonly assignments: Assignments;
  readonly store: FakeRecordStore;
  readonly queue: FakeQueue;
  readonly tasks: FakeTasks;
  readonly logs: FakeLogs;
  readonly logLanes: KeyedQueue;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  /** The ids of messages that need a key which we lack, once for each delivery. */
  readonly unknownKeys: readonly string[];
  /** The messages that nobody can read and that name a task without a record. */
  readonly unreadable: readonly UnreadableMessage[];
  /** Hearing of the next one of these fails. */
  failNextUnreadable(error: Error): void;
  /** Starts the named loops, or all; ends with `stop`. */
  run(...names: readonly LoopName[]): void;
  stop(): Promise<void>;
  record(assignment: Assignment): AssignmentRecord;
  /** The record's phase, and its attempt's number. */
  phase(assignment?: Assignment): string;
  /** The name of the current attempt's executor. */
  executor(assignment: Assignment): string;
  /** Applies an event as the assignment's actor. */
  apply(assignment: Assignment, event: AssignmentEvent): Promise<void>;
  /** Enters a claim, as the facade does. */
  claim(assignment: Assignment, instance?: string): Promise<void>;
  /** Records an end, as those do who tell Gitea of it. */
  end(assignment: Assignment, result?: TaskResult): Promise<void>;
  /** The names of the lane's events of that log message, in order. */
  events(message?: string): readonly string[];
};

export type LaneUnderTestOptions = {
  readonly kind?: BackendKind;
  readonly capacity?: number;
  readonly times?: Partial<Times>;
  readonly timeoutMs?: number;
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

/** The environment that the executor of an assignment gets in tests. */
export function anEnvironment(assignment: Assignment) {
  const facade = { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" };
  return executorEnvironment(assignment, "a capability", facade);
}

/** What brings a backend's assignments to their claim, between a backend, a queue, records and a Gitea that are fakes. */
export function createLaneUnderTest(options: LaneUnderTestOptions = {}): LaneUnderTest {
  const { kind = "pod", capacity = 2, world, timeoutMs = 4 * 60 * 60_000 } = options;
  const clock = options.clock ?? createFakeClock();
  const store = options.store ?? createFakeRecordStore();
  const queue = options.queue ?? createFakeQueue(clock);
  const tasks = options.tasks ?? createFakeTasks();
  const log = options.log ?? createRecordingLogger();
  const assignments = options.assignments ?? createAssignments({ store, clock });
  const backend = createFakeBackend({ kind, clock, ...(world === undefined ? {} : { world }) });
  const slots = createSlots(capacity);
  const logs = createFakeLogs();
  const logLanes = createKeyedQueue();
  const unknownKeys: string[] = [];
  const unreadable: UnreadableMessage[] = [];
  const unreadableFailures: Error[] = [];
  const worker = createBackendWorker({
    backend,
    timeoutMs,
    slots,
    assignments,
    queue,
    gitea: {
      beat: (taskId, signal) => tasks.beat(taskId, signal),
      storedRows: (taskId, signal) => logs.storedRows(taskId, signal),
      appendRow: (...row) => logs.appendRow(...row),
    },
    logLanes,
    executorRequest: (record) => {
      const attempt = currentAttempt(record);
      if (attempt === undefined) throw new Error("no attempt has begun");
      const { assignment } = record;
      return {
        metadata: anExecutorMetadata({ assignment, attempt }),
        environment: anEnvironment(assignment),
      };
    },
    newNonce: () => randomBytes(16).toString("hex"),
    onUnknownKey: (_, id) => void unknownKeys.push(id),
    onUnreadable: async (message) => {
      const failure = unreadableFailures.shift();
      if (failure !== undefined) throw failure;
      unreadable.push(message);
    },
    times: { ...defaultTimes, ...options.times },
    clock,
    random: () => 0.4,
    log,
  });
  const stopping = new AbortController();
  const running: Promise<void>[] = [];
  const apply = async ({ id }: Assignment, event: AssignmentEvent) => {
    await assignments.within(id, async () => void (await assignments.apply(id, event, never)));
    await settle();
  };
  const record = ({ id }: Assignment) => {
    const known = assignments.get(id)?.record;
    if (known === undefined) throw new Error(`${id} is not known`);
    return known;
  };
  const attemptOf = (assignment: Assignment) => {
    const attempt = currentAttempt(record(assignment));
    if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
    return attempt;
  };

  return {
    worker,
    slots,
    backend,
    assignments,
    store,
    queue,
    tasks,
    logs,
    logLanes,
    clock,
    log,
    unknownKeys,
    unreadable,
    failNextUnreadable: (error) => void unreadableFailures.push(error),
    run: (...names) => {
      const wanted = names.length === 0 ? (Object.keys(loops) as LoopName[]) : names;
      for (const name of wanted) running.push(worker[loops[name]](stopping.signal));
    },
    stop: async () => {
      stopping.abort(new Error("the test is over"));
      await Promise.all(running);
    },
    record,
    phase: (assignment) => {
      const known =
        assignment === undefined ? assignments.all()[0]?.record : assignments.get(assignment.id)?.record;
      const attempt = known === undefined ? undefined : currentAttempt(known);
      return [known?.phase.name ?? "unknown", ...(attempt === undefined ? [] : [attempt.number])].join(" ");
    },
    executor: (assignment) => executorName(assignment, attemptOf(assignment)),
    apply,
    claim: (assignment, instance = "instance-of-the-first") =>
      apply(assignment, { type: "claimed", attempt: attemptOf(assignment), instance, logRows: 0 }),
    end: (assignment, result = "success") => apply(assignment, { type: "ended_by_gitea", result }),
    events: (message = "assignment transition") =>
      log.lines.filter((line) => line.message === message).map(({ fields }) => String(fields["event"])),
  };
}

import type { Assignment } from "../../controller/assignment/assignment.ts";
import { executorEnvironment } from "../../controller/assignment/executor-environment.ts";
import type { AssignmentEvent } from "../../controller/assignment/event.ts";
import type { AssignmentRecord } from "../../controller/assignment/record.ts";
import { defaultTimes, type Times } from "../../controller/assignment/times.ts";
import type { Backend } from "../../controller/backends/backend.ts";
import type { Attempt } from "../../controller/identity/capability.ts";
import {
  type Assignments,
  createAssignments,
  type StoredChange,
} from "../../controller/lifecycle/assignments.ts";
import { createHearing, type Hearing } from "../../controller/lifecycle/hearing.ts";
import type { ExecutorDeed } from "../../controller/lifecycle/perform.ts";
import { createReconciler, type Reconciler } from "../../controller/lifecycle/reconciler.ts";
import { createSlots, type Slots } from "../../controller/slots/slots.ts";
import { createFakeBackend, type FakeBackend, type FakeBackendWorld } from "../fakes/fake-backend.ts";
import { createFakeClock, type FakeClock, settle } from "../fakes/fake-clock.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../fakes/fake-record-store.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { anAttempt, anExecutorMetadata } from "./builders.ts";

export const never = new AbortController().signal;

const facade = { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" };

/** A reconciler between fakes; only its own loop runs, and worker, facade and Gitea are the test. */
export type ReconcilerUnderTest = {
  readonly reconciler: Reconciler;
  readonly backend: FakeBackend;
  /** The backend's own, for a test that puts another in its place. */
  readonly list: (signal: AbortSignal) => ReturnType<Backend["list"]>;
  readonly assignments: Assignments;
  readonly store: FakeRecordStore;
  readonly slots: Slots;
  readonly hearing: Hearing;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  readonly changes: readonly StoredChange[];
  /** What was told of as done to executors. */
  readonly deeds: readonly ExecutorDeed[];
  /** The messages and reports that were removed, in order with "record". */
  readonly removed: readonly string[];
  failRemoval(what: "message" | "reports", error: Error): void;
  pass(): Promise<void>;
  /** Starts its loop; ends with `stop`. */
  run(): void;
  stop(): Promise<void>;
  /** Puts a record in place, as if it had got there. */
  enter(record: AssignmentRecord): void;
  /** An executor of the assignment's attempt. */
  create(assignment: Assignment, attempt?: Attempt): Promise<string>;
  apply(id: string, event: AssignmentEvent): Promise<void>;
  phase(id: string): string;
  errors(): readonly string[];
};

export type ReconcilerUnderTestOptions = {
  readonly times?: Partial<Times>;
  readonly capacity?: number;
  readonly maxLifeMs?: number;
  readonly clock?: FakeClock;
  readonly store?: FakeRecordStore;
  readonly world?: FakeBackendWorld;
};

export function createReconcilerUnderTest(options: ReconcilerUnderTestOptions = {}): ReconcilerUnderTest {
  const clock = options.clock ?? createFakeClock();
  const store = options.store ?? createFakeRecordStore();
  const backend = createFakeBackend({
    clock,
    ...(options.world === undefined ? {} : { world: options.world }),
  });
  const log = createRecordingLogger();
  const changes: StoredChange[] = [];
  const deeds: ExecutorDeed[] = [];
  const removed: string[] = [];
  const failures: { readonly what: string; readonly error: Error }[] = [];
  const assignments = createAssignments({
    store: {
      ...store,
      remove: async (id, signal) => {
        await store.remove(id, signal);
        removed.push(`record ${id}`);
      },
    },
    clock,
    onChange: (change) => void changes.push(change),
  });
  const slots = createSlots(options.capacity ?? 4);
  const hearing = createHearing({ clock });
  const removal = async (what: string, id: string) => {
    await Promise.resolve();
    const index = failures.findIndex((failure) => failure.what === what);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined) throw failure.error;
    removed.push(`${what} ${id}`);
  };
  const reconciler = createReconciler({
    backend,
    slots,
    assignments,
    hearing,
    registration: { lostSince: () => undefined },
    removeMessage: (sequence, id) => removal("message", `${id} ${sequence}`),
    removeReports: (id) => removal("reports", id),
    onExecutor: (deed) => void deeds.push(deed),
    maxLifeMs: options.maxLifeMs ?? 4 * 3_600_000,
    times: { ...defaultTimes, ...options.times },
    clock,
    log,
  });
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  return {
    reconciler,
    backend,
    list: backend.list.bind(backend),
    assignments,
    store,
    slots,
    hearing,
    clock,
    log,
    changes,
    deeds,
    removed,
    failRemoval: (what, error) => void failures.push({ what, error }),
    pass: () => reconciler.pass(never),
    run: () => {
      running = reconciler.run(stopping.signal);
    },
    stop: async () => {
      stopping.abort(new Error("the test is over"));
      await running;
    },
    enter: (record) => {
      store.overwrite(record);
      const stored = store.stored.get(record.assignment.id);
      if (stored !== undefined) assignments.restore(stored);
    },
    create: async (assignment, attempt = anAttempt()) => {
      const metadata = anExecutorMetadata({ assignment, attempt });
      const environment = executorEnvironment(assignment, "a capability", facade);
      const { name } = await backend.create({ metadata, environment, deadlineAt: Infinity }, never);
      return name;
    },
    apply: async (id, event) => {
      await assignments.within(id, () => assignments.apply(id, event, never));
      await settle();
    },
    phase: (id) => assignments.get(id)?.record.phase.name ?? "unknown",
    errors: () =>
      log.lines
        .filter(({ level }) => level === "error")
        .map(({ message, fields }) => `${message}: ${textOf(fields["error"] ?? fields["reason"])}`),
  };
}

function textOf(field: unknown): string {
  return typeof field === "string" ? field : "";
}

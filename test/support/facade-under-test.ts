import { create } from "@bufbuild/protobuf";
import { type Client, createClient, createRouterTransport, type Interceptor } from "@connectrpc/connect";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import { callHeaders } from "../../controller/assignment/executor-call.ts";
import type { AssignmentEvent } from "../../controller/assignment/event.ts";
import { failureFor } from "../../controller/assignment/failure.ts";
import { type AssignmentRecord, type Claim, claimOf } from "../../controller/assignment/record.ts";
import {
  createRunnerService,
  type RefusedCall,
  type RunnerServiceOptions,
} from "../../controller/facade/runner-service.ts";
import { type Attempt, signCapability } from "../../controller/identity/capability.ts";
import { createReportEnd } from "../../controller/gitea/report-end.ts";
import { sendReport } from "../../controller/gitea/send-report.ts";
import { type Assignments, createAssignments } from "../../controller/lifecycle/assignments.ts";
import { createEnds, type Ends } from "../../controller/lifecycle/deliver-ends.ts";
import { createKeyedQueue } from "../../controller/platform/keyed-queue.ts";
import { compressTask, decompressTask } from "../../controller/protocol/compressed-task.ts";
import {
  RunnerService,
  type Task,
  UpdateLogRequestSchema,
  UpdateTaskRequestSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeClock, type FakeClock } from "../fakes/fake-clock.ts";
import { createFakeFacadeGitea, type FakeFacadeGitea } from "../fakes/fake-facade-gitea.ts";
import { createFakeReportStore, type FakeReportStore } from "../fakes/fake-report-store.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../fakes/fake-record-store.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { aTask } from "./a-task.ts";
import { anAssignment, anAttempt, testStart } from "./builders.ts";
import { testKeyRing } from "./jetstream.ts";

export const instance = "bootstrap-instance-1";
export const keyRing = testKeyRing(1);

export type CallerInit = {
  readonly assignment?: Assignment;
  readonly attempt?: Attempt;
  readonly instance?: string;
  /** The SPIFFE ID of the connection; the assignment's unless given. */
  readonly peer?: string;
  /** Signed for assignment and attempt unless given. */
  readonly capability?: string;
  /** What the header says; the assignment's unless given. */
  readonly assignmentId?: string;
};

/** The headers of a caller, without its connection. */
export function callerHeaders(init: CallerInit = {}): Record<string, string> {
  const { assignment = anAssignment(), attempt = anAttempt() } = init;
  const { id, spiffeId } = assignment;
  return {
    [callHeaders.assignmentId]: init.assignmentId ?? id,
    [callHeaders.capability]:
      init.capability ?? signCapability(keyRing, { assignmentId: id, spiffeId, attempt }),
    [callHeaders.instance]: init.instance ?? instance,
  };
}

export function withHeaders(headers: Readonly<Record<string, string>>): Interceptor {
  return (next) => (request) => {
    for (const [name, value] of Object.entries(headers)) request.header.set(name, value);
    return next(request);
  };
}

export type FacadeUnderTest = {
  readonly options: Omit<RunnerServiceOptions, "peerOf" | "onOver" | "onWork">;
  readonly refused: readonly RefusedCall[];
  /** How often somebody heard that it is not needed any more, without a network. */
  readonly over: () => number;
  readonly assignments: Assignments;
  readonly store: FakeRecordStore;
  readonly reports: FakeReportStore;
  /** The controller's own delivery of what is stored; its loop does not run. */
  readonly ends: Ends;
  /** The assignments of which the facade has heard, in order. */
  readonly heard: readonly string[];
  readonly gitea: FakeFacadeGitea;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  /** The phases of the records that were marked on their executors. */
  readonly marks: readonly string[];
  failNextMark(error: Error): void;
  /** A client without a network, its connection's peer taken from `peer`. */
  client(init?: CallerInit): Client<typeof RunnerService>;
  /** Makes an assignment known, its first attempt begun. */
  started(assignment?: Assignment, task?: Task, attempt?: Attempt): Promise<void>;
  /** Something happens; it must not be ignored. */
  apply(event: AssignmentEvent, assignment?: Assignment): Promise<void>;
  record(assignment?: Assignment): AssignmentRecord;
  claim(assignment?: Assignment): Claim | undefined;
};

const peerHeader = "x-test-peer";
const never = new AbortController().signal;

export function createFacadeUnderTest(): FacadeUnderTest {
  const store = createFakeRecordStore();
  const clock = createFakeClock();
  const assignments = createAssignments({ store, clock });
  const reports = createFakeReportStore();
  const gitea = createFakeFacadeGitea();
  const logLanes = createKeyedQueue();
  const heard: string[] = [];
  const log = createRecordingLogger();
  const marks: string[] = [];
  const failures: Error[] = [];
  const refused: RefusedCall[] = [];
  let over = 0;
  const markTerminal = async ({ phase }: AssignmentRecord) => {
    await Promise.resolve();
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    marks.push(phase.name);
  };
  const upstream: Parameters<typeof createReportEnd>[0]["gitea"] = {
    updateTask: (request, signal) => gitea.updateTask(create(UpdateTaskRequestSchema, request), signal),
    updateLog: (request, signal) => gitea.updateLog(create(UpdateLogRequestSchema, request), signal),
  };
  const ends = createEnds({
    assignments,
    reports,
    sendReport: (report, signal) => sendReport(upstream, report, signal),
    reportEnd: createReportEnd({ gitea: upstream, clock }),
    commandFor: () => undefined,
    markTerminal,
    logLanes,
    times: { callMs: 30_000 },
    clock,
    random: () => 0,
    log,
  });
  const options: FacadeUnderTest["options"] = {
    onRefused: (call) => void refused.push(call),
    keyRing,
    assignments,
    gitea,
    readTask: decompressTask,
    reports,
    ends,
    hearing: { heard: (id) => void heard.push(id) },
    logLanes,
    markTerminal,
    clock,
    log,
  };
  const service = createRunnerService({
    ...options,
    onOver: () => void over++,
    onWork: () => undefined,
    peerOf: ({ requestHeader }) => {
      const id = requestHeader.get(peerHeader);
      return id === null ? undefined : { ok: true, id };
    },
  });
  const record = ({ id } = anAssignment()) => {
    const known = assignments.get(id)?.record;
    if (known === undefined) throw new Error(`${id} is not known`);
    return known;
  };
  const apply: FacadeUnderTest["apply"] = async (event, { id } = anAssignment()) =>
    assignments.within(id, async () => {
      const { ignored } = await assignments.apply(id, event, never);
      if (ignored !== undefined) throw new Error(`${event.type} is ignored: ${ignored}`);
    });

  return {
    options,
    refused,
    over: () => over,
    assignments,
    store,
    reports,
    ends,
    heard,
    gitea,
    clock,
    log,
    marks,
    failNextMark: (error) => void failures.push(error),
    client: (init = {}) => {
      const peer = init.peer ?? (init.assignment ?? anAssignment()).spiffeId;
      const headers = { ...callerHeaders(init), ...(peer === "" ? {} : { [peerHeader]: peer }) };
      const transport = createRouterTransport(({ service: serve }) => serve(RunnerService, service), {
        transport: { interceptors: [withHeaders(headers)] },
      });
      return createClient(RunnerService, transport);
    },
    started: async (
      assignment = anAssignment(),
      task = aTask({ id: assignment.taskId }),
      attempt = anAttempt(),
    ) => {
      const compressedTask = await compressTask(task);
      await assignments.offer(
        { assignment, fetchedAt: testStart, sequence: 1, compressedTask, isNew: true },
        never,
      );
      await apply(begun(attempt.nonce), assignment);
    },
    apply,
    record,
    claim: (assignment) => claimOf(record(assignment)),
  };
}

/** An attempt with this nonce begins, with an hour to run. */
export function begun(nonce: string): AssignmentEvent {
  return { type: "attempt_begun", nonce, deadlineAt: testStart + 3_600_000 };
}

/** An attempt is lost, and the next one may begin at once. */
export function lost(attempt: Attempt): AssignmentEvent {
  return {
    type: "attempt_lost",
    attempt,
    failure: failureFor("start_failed", "exit code 1"),
    burnt: true,
    retryAt: 0,
  };
}

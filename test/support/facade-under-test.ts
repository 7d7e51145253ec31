import { type Client, createClient, createRouterTransport, type Interceptor } from "@connectrpc/connect";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import { callHeaders } from "../../controller/assignment/executor-call.ts";
import { type AssignmentRecord, beginAttempt, type Claim } from "../../controller/assignment/record.ts";
import {
  createRunnerService,
  type RefusedCall,
  type RunnerServiceOptions,
} from "../../controller/facade/runner-service.ts";
import { type Attempt, signCapability } from "../../controller/identity/capability.ts";
import { type Assignments, createAssignments } from "../../controller/lifecycle/assignments.ts";
import { compressTask, decompressTask } from "../../controller/protocol/compressed-task.ts";
import { RunnerService, type Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeClock, type FakeClock } from "../fakes/fake-clock.ts";
import { createFakeFacadeGitea, type FakeFacadeGitea } from "../fakes/fake-facade-gitea.ts";
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
  change(next: (record: AssignmentRecord) => AssignmentRecord, assignment?: Assignment): Promise<void>;
  record(assignment?: Assignment): AssignmentRecord;
  claim(assignment?: Assignment): Claim | undefined;
};

const peerHeader = "x-test-peer";
const never = new AbortController().signal;

export function createFacadeUnderTest(): FacadeUnderTest {
  const store = createFakeRecordStore();
  const assignments = createAssignments(store);
  const gitea = createFakeFacadeGitea();
  const clock = createFakeClock();
  const log = createRecordingLogger();
  const marks: string[] = [];
  const failures: Error[] = [];
  const refused: RefusedCall[] = [];
  let over = 0;
  const options: FacadeUnderTest["options"] = {
    onRefused: (call) => void refused.push(call),
    keyRing,
    assignments,
    gitea,
    readTask: decompressTask,
    markTerminal: async ({ phase }) => {
      await Promise.resolve();
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      marks.push(phase.name);
    },
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
  const change: FacadeUnderTest["change"] = async (next, { id } = anAssignment()) =>
    assignments.within(id, async () => void (await assignments.change(id, next, never)));

  return {
    options,
    refused,
    over: () => over,
    assignments,
    store,
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
      await assignments.offer({ assignment, fetchedAt: testStart, sequence: 1, compressedTask }, never);
      await change((now) => beginAttempt(now, attempt.nonce, testStart) ?? now, assignment);
    },
    change,
    record,
    claim: (assignment) => {
      const { phase } = record(assignment);
      return "claim" in phase ? phase.claim : undefined;
    },
  };
}

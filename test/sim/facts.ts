import { assignmentId, taskIdOf } from "../../controller/assignment/assignment.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { executorName } from "../../controller/assignment/executor-metadata.ts";
import type { Failure } from "../../controller/assignment/failure.ts";
import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import type { AssignmentRecord } from "../../controller/assignment/record.ts";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { FakeJob } from "../fakes/fake-gitea-model.ts";
import type { MomentName, Moments } from "./moments.ts";
import type { Observed } from "./observed.ts";
import { isRowOfJob, type SimJob } from "./sim-runner.ts";

/** Something that the plan, or the world, did to an executor. */
export type Hit = {
  readonly at: number;
  readonly what: FailureReason | "ghost" | "stopped";
  readonly ms: number;
};

/** A job as nobody in the world knows it: everything that truly happened to it. Times since the epoch. */
export type JobFacts = {
  readonly number: number;
  readonly job: FakeJob;
  readonly backend: BackendKind;
  readonly work: SimJob;
  fetchedAt?: number;
  /** When its message was stored for the first time. */
  storedAt?: number;
  /** When its record was written for the first time. */
  recordedAt?: number;
  /** When its first step began, in all executors. */
  readonly runs: number[];
  /** Who has had the answer to a claim, by instance. */
  readonly claims: Set<string>;
  claimedAt?: number;
  cancelledAt?: number;
  /** When its gitea-runner heard of the cancel. */
  windsUpAt?: number;
  /** What its executor was told that it need not care for any more. */
  delivered?: { readonly result: Result; readonly at: number };
  /** The names of its executors. */
  readonly executors: Set<string>;
  readonly hits: Hit[];
  /** Executors that did not start. `isKnown`: the cluster says so, by this name. */
  readonly startFailures: {
    readonly at: number;
    readonly reason: FailureReason;
    readonly isKnown: boolean;
  }[];
  /** Rows of ours in its log, and when the executor said that it has no more. */
  readonly rows: { readonly at: number; readonly content: string }[];
  logClosedAt?: number;
  /** Why we failed it, as its record said when Gitea was told. */
  verdict?: Failure;
  /** Results that Gitea was told, in their order, repetitions and those that came too late included. */
  readonly told: { readonly at: number; readonly result: Result }[];
  /** When Gitea ended it by itself. */
  sweptAt?: number;
  overAt?: number;
  /** When its record was removed. */
  forgottenAt?: number;
  /** Somebody has written its record again: a leader that is none any more, or one that got an old message. */
  resurrected?: boolean;
  /** Its record, or its message, was lost, and so was the memory of who could have written it anew. */
  forgotten: { record: boolean; message: boolean };
};

export type Facts = {
  readonly jobs: ReadonlyMap<number, JobFacts>;
  add(job: JobFacts): void;
  ofTask(taskId: bigint): JobFacts | undefined;
  ofAssignment(assignmentId: string): JobFacts | undefined;
  /** Of the executor with this name. */
  ofExecutor(name: string): JobFacts | undefined;
  observe(event: Observed): void;
  /** These records, or messages, are gone from their store. */
  lost(what: "record" | "message", assignmentIds: readonly string[]): void;
  /** Since when it is lost, and nobody has written it anew. */
  lostSince(what: "record" | "message", assignmentId: string): number | undefined;
  /** Whoever remembered is gone: what is lost by now is forgotten. */
  memoryLost(): void;
};

export type FactsOptions = {
  readonly clock: { now(): number };
  /** Whether there is a controller that knows what was stored. */
  readonly isRemembered: () => boolean;
  readonly moments: Pick<Moments, "reached">;
  /** What is stored of an assignment. */
  readonly recordOf: (assignmentId: string) => AssignmentRecord | undefined;
};

export function createFacts({ clock, isRemembered, moments, recordOf }: FactsOptions): Facts {
  const jobs = new Map<number, JobFacts>();
  const byTask = new Map<bigint, JobFacts>();
  const gone = { record: new Map<string, number>(), message: new Map<string, number>() };

  const ofTask = (taskId: bigint) => {
    const known = byTask.get(taskId);
    if (known !== undefined) return known;
    const found = [...jobs.values()].find(({ job }) => job.task?.id === taskId);
    if (found !== undefined) byTask.set(taskId, found);
    return found;
  };
  const ofAssignment = (id: string) => {
    const taskId = taskIdOf(id);
    return taskId === undefined ? undefined : ofTask(taskId);
  };
  const ofExecutor = (name: string) => [...jobs.values()].find(({ executors }) => executors.has(name));

  const memoryLost = () => {
    for (const what of ["record", "message"] as const)
      for (const id of gone[what].keys()) {
        const job = ofAssignment(id);
        if (job !== undefined) job.forgotten[what] = true;
      }
  };

  const reached = (name: MomentName, job: JobFacts | undefined) => {
    if (job !== undefined) moments.reached(name, job.number);
  };
  const told = (job: JobFacts | undefined, result: Result) => {
    if (job === undefined || result === Result.UNSPECIFIED) return;
    job.told.push({ at: clock.now(), result });
    const phase = recordOf(assignmentId(job.job.task?.id ?? 0n))?.phase;
    if (phase?.name === "ending" && phase.end.by === "controller" && phase.end.failure !== undefined)
      job.verdict ??= phase.end.failure;
    job.overAt ??= clock.now();
    reached("told", job);
  };

  const observe = (event: Observed): void => {
    const now = clock.now();
    switch (event.kind) {
      case "fetched": {
        const job = ofTask(event.taskId);
        if (job !== undefined) job.fetchedAt = now;
        return reached("fetched", job);
      }
      case "update-task": {
        const { state } = event.request;
        return state === undefined ? undefined : told(ofTask(state.id), state.result);
      }
      case "swept": {
        const job = ofTask(event.taskId);
        if (job === undefined) return;
        job.sweptAt = now;
        job.overAt ??= now;
        return;
      }
      case "message-stored": {
        gone.message.delete(event.assignmentId);
        const job = ofAssignment(event.assignmentId);
        if (job !== undefined) job.storedAt ??= now;
        return reached("stored", job);
      }
      case "record-written": {
        gone.record.delete(event.key);
        const job = ofAssignment(event.key);
        if (job === undefined) return;
        if (job.forgottenAt !== undefined) job.resurrected = true;
        job.recordedAt ??= now;
        return reached("recorded", job);
      }
      case "create": {
        const job = ofTask(event.assignment.taskId);
        job?.executors.add(executorName(event.assignment, event.attempt));
        return reached("created", job);
      }
      case "start-failed":
        ofAssignment(event.assignmentId)?.startFailures.push({
          at: now,
          reason: event.reason,
          isKnown: true,
        });
        return;
      case "remove":
        return event.how === "delete" ? reached("executor-gone", ofExecutor(event.executor)) : undefined;
      case "message-goes":
        return reached("message-gone", ofAssignment(event.assignmentId));
      case "record-goes": {
        const job = ofAssignment(event.key);
        if (job !== undefined) job.forgottenAt ??= now;
        return reached("record-gone", job);
      }
      case "update-log": {
        const { taskId, rows, noMore } = event.request;
        const job = ofTask(taskId);
        for (const { content } of rows) if (!isRowOfJob(content)) job?.rows.push({ at: now, content });
        if (noMore && job !== undefined && rows.every(({ content }) => isRowOfJob(content)))
          job.logClosedAt ??= now;
        return;
      }
      case "made":
      case "declared":
        return;
      default:
        event satisfies never;
    }
  };

  return {
    jobs,
    add: (job) => void jobs.set(job.number, job),
    ofTask,
    ofAssignment,
    ofExecutor,
    observe,
    lost: (what, ids) => {
      for (const id of ids) gone[what].set(id, clock.now());
      if (!isRemembered()) memoryLost();
    },
    lostSince: (what, id) => gone[what].get(id),
    memoryLost,
  };
}

import {
  type AssignmentRecord,
  claimOf,
  currentAttempt,
  isUnclaimed,
  resultOf,
  sameAttempt,
} from "../../controller/assignment/record.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { taskResultOf } from "../../controller/protocol/task-result.ts";
import { Result, type UpdateTaskRequest } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Facts, JobFacts } from "./facts.ts";
import type { Observed } from "./observed.ts";
import type { SimCluster } from "./sim-cluster.ts";
import type { SimBucket } from "./sim-key-value.ts";
import { isRowOfJob } from "./sim-runner.ts";
import type { SimStream } from "./sim-stream.ts";

export type WriteAheadOptions = {
  readonly facts: Facts;
  readonly bucket: Pick<SimBucket, "recordOf">;
  readonly stream: Pick<SimStream, "at">;
  readonly clusters: Readonly<Record<BackendKind, Pick<SimCluster, "machines">>>;
  readonly outrage: (what: string) => void;
};

/**
 * What is written before what: the order that lets a controller end at any moment. Looks at the stores when an effect
 * reaches its peer. A record that was lost with its bucket, and is not written anew yet, says nothing against it.
 */
export type WriteAhead = {
  observe(event: Observed): void;
  /** An executor has the answer to its claim. */
  claimed(job: JobFacts, instance: string, ended: boolean): void;
};

export function createWriteAhead(options: WriteAheadOptions): WriteAhead {
  const { facts, bucket, stream, clusters, outrage } = options;

  /** Undefined if nothing can be said of it. */
  const known = (id: string): { readonly record: AssignmentRecord | undefined } | undefined => {
    if (facts.lostSince("record", id) !== undefined) return undefined;
    return { record: bucket.recordOf(id) };
  };
  const isOver = (job: JobFacts | undefined) => job === undefined || job.job.over !== undefined;

  const createSeen = ({ assignment, attempt }: Extract<Observed, { kind: "create" }>) => {
    const there = known(assignment.id);
    if (there === undefined) return;
    const { record } = there;
    const current = record === undefined ? undefined : currentAttempt(record);
    const begun = record?.attempts.begun ?? 0;
    const isWritten =
      begun > attempt.number ||
      (begun === attempt.number && (current === undefined || sameAttempt(current, attempt)));
    if (!isWritten) outrage(`attempt ${attempt.number} of ${assignment.id} is created before its record`);
  };

  const reportSeen = ({ state }: UpdateTaskRequest) => {
    if (state === undefined || state.result === Result.UNSPECIFIED) return;
    const job = facts.ofTask(state.id);
    // Before there is a record a task is refused, or fails because it cannot be stored.
    if (job?.recordedAt === undefined || isOver(job)) return;
    const there = known(`gitea-task-${state.id}`);
    if (there === undefined) return;
    const stands = there.record === undefined ? undefined : resultOf(there.record);
    if (stands !== taskResultOf(state.result))
      outrage(`job ${job.number}: Gitea is told ${state.result}, its record says ${stands ?? "nothing"}`);
  };

  const rowsSeen = ({ request }: Extract<Observed, { kind: "update-log" }>) => {
    const { taskId, rows } = request;
    if (rows.length === 0 || rows.some(({ content }) => isRowOfJob(content))) return;
    const there = known(`gitea-task-${taskId}`);
    if (there?.record === undefined || !isUnclaimed(there.record) || there.record.rowsBegun) return;
    outrage(`gitea-task-${taskId}: rows of ours before its record says so`);
  };

  const removalSeen = ({ executor, how }: Extract<Observed, { kind: "remove" }>) => {
    const job = facts.ofExecutor(executor);
    const machine = machineOf(executor);
    if (job === undefined || machine === undefined) return;
    const { assignment, attempt } = machine.request.metadata;
    const there = known(assignment.id);
    if (there?.record === undefined || !sameAttempt(currentAttempt(there.record), attempt)) return;
    const { phase, sequence } = there.record;
    const alive = machine.state.phase !== "ended";
    if (alive && phase.name !== "ending" && phase.name !== "finished")
      outrage(`job ${job.number}: its living executor is to be gone (${how}) while it is ${phase.name}`);
    if (how === "delete" && phase.name !== "finished")
      outrage(`job ${job.number}: its executor is deleted while it is ${phase.name}`);
    if (how === "delete" && isMessage(sequence, assignment.id))
      outrage(`job ${job.number}: its executor is deleted before its message`);
  };
  const machineOf = (name: string) => clusters.pod.machines.get(name) ?? clusters.vm.machines.get(name);
  const isMessage = (sequence: number, id: string) => stream.at(sequence)?.publication.assignment.id === id;

  const messageSeen = ({ assignmentId, how }: Extract<Observed, { kind: "message-goes" }>) => {
    if (how === "term") return outrage(`${assignmentId}: its message is terminated`);
    const job = facts.ofAssignment(assignmentId);
    const there = known(assignmentId);
    if (there === undefined || isOver(job)) return;
    if (there.record === undefined || isUnclaimed(there.record) || there.record.phase.name === "adopted")
      outrage(`${assignmentId}: its message goes (${how}) before anybody has claimed it`);
  };

  const recordSeen = (id: string) => {
    const record = bucket.recordOf(id);
    if (record === undefined) return;
    const job = facts.ofAssignment(id);
    if (!isOver(job)) outrage(`${id} is forgotten though Gitea shows it as open`);
    if (isMessage(record.sequence, id)) outrage(`${id} is forgotten before its message`);
  };

  return {
    observe: (event) => {
      switch (event.kind) {
        case "create":
          return createSeen(event);
        case "update-task":
          return reportSeen(event.request);
        case "update-log":
          return rowsSeen(event);
        case "remove":
          return removalSeen(event);
        case "message-goes":
          return messageSeen(event);
        case "record-goes":
          return recordSeen(event.key);
        case "fetched":
        case "declared":
        case "swept":
        case "start-failed":
        case "message-stored":
        case "record-written":
        case "made":
          return;
        default:
          event satisfies never;
      }
    },
    claimed: ({ number, job }, instance, ended) => {
      const id = `gitea-task-${job.task?.id ?? 0n}`;
      const there = known(id);
      if (there?.record === undefined || ended || job.over !== undefined) return;
      if (claimOf(there.record)?.instance !== instance)
        outrage(`job ${number}: a claim is answered that its record does not hold`);
    },
  };
}

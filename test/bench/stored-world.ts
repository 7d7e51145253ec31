import { randomBytes, randomUUID } from "node:crypto";
import { type AssignmentRecord, queuedRecord } from "../../controller/assignment/record.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createKeyValue } from "../../controller/platform/key-value.ts";
import type { NatsLink } from "../../controller/platform/nats-connection.ts";
import { compressTask, decompressTask } from "../../controller/protocol/compressed-task.ts";
import { createAssignmentQueue } from "../../controller/queue/assignment-queue.ts";
import { createStreams } from "../../controller/queue/prepare-streams.ts";
import { stateBucket, wantedStreams } from "../../controller/queue/streams.ts";
import { createRecordStore } from "../../controller/record/record-store.ts";
import type { Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { aTask } from "../support/a-task.ts";
import { aTaskContext } from "../support/builders.ts";
import { readAnyTask } from "../support/core-under-test.ts";
import { instance, keyRing } from "../support/facade-under-test.ts";

/** How many assignments of each kind a controller that starts finds in NATS. */
export type StoredWorld = { readonly stream: string; readonly claimed: number; readonly queued: number };

const never = new AbortController().signal;

/** Half of it in hexadecimal digits: what gzip can make smaller, and what it cannot. */
const eventBytes = 4_500;

/** A task of about the size of a real one: most of it is the event. */
export function aRealisticTask(taskId: bigint): Task {
  const event = { ref: "refs/heads/main", commits: randomBytes(eventBytes).toString("hex") };
  return aTask({ id: taskId, context: { ...aTaskContext({ event }), token: "not-a-token" } });
}

/** The real queue and the real records of a stream. */
export function openStores(link: NatsLink, stream: string) {
  return {
    queue: createAssignmentQueue({
      connection: link,
      keyRing,
      stream,
      subjectBase: stream.toLowerCase(),
      assignmentOf: async (compressed) => assignmentOf(await decompressTask(compressed)),
      randomBytes,
      clock: systemClock,
    }),
    records: createRecordStore({
      bucket: createKeyValue({ link, bucket: stateBucket(stream) }),
      writerId: randomUUID(),
      log: createRecordingLogger(),
    }),
  };
}

/** Stores the world as a controller before leaves it; resolves to the mean size of a compressed task, in bytes. */
export async function storeWorld(link: NatsLink, { stream, claimed, queued }: StoredWorld): Promise<number> {
  const capacity = { pod: Math.max(1, claimed), vm: 1 };
  await createStreams(link, wantedStreams({ stream, subjectBase: stream.toLowerCase(), capacity }), never);
  const { queue, records } = openStores(link, stream);
  let bytes = 0;
  for (let index = 1; index <= claimed + queued; index++) {
    const task = aRealisticTask(BigInt(index));
    const assignment = assignmentOf(task);
    const fetchedAt = systemClock.now();
    const compressedTask = await compressTask(task);
    bytes += compressedTask.length;
    const { sequence } =
      index > claimed
        ? await queue.publish({ assignment, fetchedAt, compressedTask }, never)
        : { sequence: 0 };
    const record = queuedRecord(assignment, { fetchedAt, sequence });
    const written = await records.create(index > claimed ? record : claimedOf(record), never);
    if (written.kind !== "stored") throw new Error(`the record of ${assignment.id} is there already`);
  }
  return Math.round(bytes / (claimed + queued));
}

function claimedOf(record: AssignmentRecord): AssignmentRecord {
  const attempt = { number: 1, nonce: record.assignment.taskId.toString(16).padStart(32, "0") };
  const claim = { instance, logRows: 0, at: record.fetchedAt };
  const deadlineAt = record.fetchedAt + 3 * 3_600_000;
  return {
    ...record,
    attempts: { begun: 1, burnt: 0 },
    steps: [{ id: 0, startedAt: "2026-01-01T00:00:00Z", logIndex: 0, logLength: 0 }],
    phase: { name: "claimed", attempt, claim, deadlineAt },
  };
}

function assignmentOf(task: Task) {
  const reading = readAnyTask(task);
  if (!reading.ok) throw new Error(reading.failure.reason);
  return reading.assignment;
}

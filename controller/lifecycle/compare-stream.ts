import type { Assignment } from "../assignment/assignment.ts";
import { failureFor } from "../assignment/failure.ts";
import { isUnclaimed } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Assignments } from "./assignments.ts";
import { nowAndThen } from "./now-and-then.ts";
import type { QueuedMessage } from "./recover.ts";
import type { SealedMessage } from "./sealed-messages.ts";

export type CompareStreamOptions = {
  readonly queue: {
    position(signal: AbortSignal): Promise<StreamPosition>;
    has(sequence: number, assignmentId: string, signal: AbortSignal): Promise<boolean>;
    scanAfter(sequence: number, signal: AbortSignal): AsyncIterable<QueuedMessage>;
    publish(
      publication: {
        readonly assignment: Assignment;
        readonly fetchedAt: number;
        readonly compressedTask: Uint8Array;
        readonly replaces: number;
      },
      signal: AbortSignal,
    ): Promise<{ readonly sequence: number }>;
  };
  readonly assignments: Pick<Assignments, "all" | "get" | "within" | "apply" | "offer">;
  /** Hears of a message that is sealed with a key that we do not have. */
  readonly onSealed?: (message: SealedMessage) => void;
  readonly times: Pick<Times, "compareStreamMs" | "callMs">;
  readonly clock: Clock;
  readonly log: Logger;
};

export type StreamPosition = {
  /** Another one: the stream was lost and made anew. */
  readonly created: string;
  readonly lastSequence: number;
  readonly messages: number;
};

export type CompareStream = {
  /** Compares once. Rejects if the stream cannot be read; doing it again is fine. */
  pass(signal: AbortSignal): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
  /** How far the start has read the stream. */
  scanned(upTo: number): void;
};

/**
 * Compares the assignments that wait for their executor with the stream. A message that is gone (with its stream,
 * or with the end of it) is stored anew from memory; without a task in memory the job fails. What lies behind the
 * last known sequence and nobody has taken in is taken in. Messages of tasks that are claimed or over do no harm
 * where they are: whoever gets them looks at the record, or asks Gitea, before anything is created.
 */
export function createCompareStream(options: CompareStreamOptions): CompareStream {
  const { queue, assignments, times, clock, log } = options;
  /** The last comparison after which nothing was missing: as long as nothing moves, nothing is looked up. */
  let complete: Complete | undefined;
  let scannedTo = 0;
  let created: string | undefined;

  const call = <T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal) =>
    withDeadline(clock, times.callMs, work, signal);

  const waiting = () => assignments.all().filter(({ record }) => isUnclaimed(record));

  /** To be run as its actor: its worker acknowledges a message only after the claim is recorded. */
  const replace = async (id: string, signal: AbortSignal) => {
    const known = assignments.get(id);
    if (known === undefined || !isUnclaimed(known.record)) return;
    const { record, compressedTask } = known;
    const { assignment, fetchedAt, sequence } = record;
    if (await queue.has(sequence, id, signal)) return;
    if (compressedTask === undefined) {
      const failure = failureFor("queue_lost", `its message ${sequence} is gone and no copy of it is left`);
      await assignments.apply(id, { type: "failed", failure, result: "failure", unclaimed: true }, signal);
      return;
    }
    const stored = await queue.publish({ assignment, fetchedAt, compressedTask, replaces: sequence }, signal);
    log.warn({ assignment: id, lost: sequence, sequence: stored.sequence }, "lost message stored anew");
    await assignments.apply(id, { type: "queued_again", sequence: stored.sequence }, signal);
  };

  /** Whether it is there. One that could not be seen to keeps no other waiting. */
  const lookAt = async (id: string, sequence: number, signal: AbortSignal): Promise<boolean> => {
    try {
      if (await call((deadline) => queue.has(sequence, id, deadline), signal)) return true;
      const work = (deadline: AbortSignal) =>
        assignments.within(id, async () => {
          deadline.throwIfAborted();
          await replace(id, deadline);
        });
      await call(work, signal);
      return false;
    } catch (error) {
      if (signal.aborted) throw error;
      log.error({ assignment: id, error: describeError(error) }, "lost message is not stored anew yet");
      return false;
    }
  };

  const takeInNew = async (signal: AbortSignal) => {
    let all = true;
    for await (const { sequence, content } of queue.scanAfter(scannedTo, signal)) {
      if (content.kind === "unknown-key" && content.assignmentId !== undefined)
        options.onSealed?.({ sequence, assignmentId: content.assignmentId });
      // What is no assignment of ours is judged when it is delivered.
      if (content.kind === "assignment" && assignments.get(content.assignment.id) === undefined)
        try {
          await takeIn(sequence, content, signal);
        } catch (error) {
          if (signal.aborted) throw error;
          all = false;
          const { id } = content.assignment;
          log.error({ assignment: id, error: describeError(error) }, "message is not taken in yet");
        }
      if (all) scannedTo = sequence;
    }
  };

  /** It may have come to its end since it was read: then its message is gone by now. */
  const takeIn = async (
    sequence: number,
    { assignment, fetchedAt, compressedTask }: Extract<QueuedMessage["content"], { kind: "assignment" }>,
    signal: AbortSignal,
  ) => {
    if (!(await queue.has(sequence, assignment.id, signal))) return;
    await assignments.offer({ assignment, fetchedAt, sequence, compressedTask }, signal);
  };

  const pass = async (signal: AbortSignal) => {
    const at = await call((deadline) => queue.position(deadline), signal);
    if (created !== undefined && created !== at.created)
      log.error({ created: at.created }, "the stream was made anew: its sequences mean nothing any more");
    if ((created !== undefined && created !== at.created) || at.lastSequence < scannedTo) scannedTo = 0;
    created = at.created;
    await call(takeInNew, signal);
    const wanted = new Map(waiting().map(({ record }) => [record.assignment.id, record.sequence]));
    if (complete !== undefined && isAsBefore(complete, { at, wanted })) return;
    let all = true;
    for (const [id, sequence] of wanted) {
      const isThere = await lookAt(id, sequence, signal);
      all &&= isThere;
    }
    // What was stored anew may be lost again before the next look, and the stream be as it was.
    complete = all ? { at, wanted } : undefined;
  };

  return {
    pass,
    run: (signal) =>
      nowAndThen({ doing: "comparing the stream", everyMs: times.compareStreamMs, pass, clock, log }, signal),
    scanned: (upTo) => {
      scannedTo = Math.max(scannedTo, upTo);
    },
  };
}

type Complete = {
  readonly at: StreamPosition;
  /** The sequences of all that waited, by assignment. */
  readonly wanted: ReadonlyMap<string, number>;
};

/**
 * Nothing came and nothing went. The position alone does not tell: a stream that lost its end and got as many new
 * messages looks the same, but then somebody waits who did not wait before.
 */
function isAsBefore({ at, wanted }: Complete, now: Complete): boolean {
  return (
    at.created === now.at.created &&
    at.lastSequence === now.at.lastSequence &&
    at.messages === now.at.messages &&
    [...now.wanted].every(([id, sequence]) => wanted.get(id) === sequence)
  );
}

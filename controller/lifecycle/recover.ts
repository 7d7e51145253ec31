import { type Assignment, sameAssignment } from "../assignment/assignment.ts";
import { currentAttempt, isUnclaimed } from "../assignment/record.ts";
import type { Executor } from "../backends/backend.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Assignments, VersionedRecord } from "./assignments.ts";
import { adoptOrphan, findOrphans, type OrphanOptions } from "./find-orphans.ts";
import type { SealedMessage } from "./sealed-messages.ts";

export type QueuedMessage = {
  readonly sequence: number;
  readonly content:
    | {
        readonly kind: "assignment";
        readonly assignment: Assignment;
        readonly fetchedAt: number;
        readonly compressedTask: Uint8Array;
      }
    /** Sealed with a key that we do not have. */
    | { readonly kind: "unknown-key"; readonly assignmentId?: string }
    | { readonly kind: "invalid"; readonly reason: string; readonly assignmentId?: string };
};

type Message = Extract<QueuedMessage["content"], { kind: "assignment" }> & { readonly sequence: number };

export type UnreadableMessage = { readonly assignmentId: string; readonly reason: string };

export type RecoverOptions = OrphanOptions & {
  readonly records: {
    list(signal: AbortSignal): Promise<{
      readonly records: readonly VersionedRecord[];
      /** Values that are no records. */
      readonly invalid: readonly { readonly key: string }[];
    }>;
  };
  readonly queue: {
    scan(signal: AbortSignal): AsyncIterable<QueuedMessage>;
    remove(sequence: number, id: string, signal: AbortSignal): Promise<unknown>;
  };
  readonly assignments: Pick<Assignments, "restore" | "offer" | "adopt" | "apply" | "within" | "get" | "all">;
  /**
   * Hears of a message that nobody will ever be able to read, and that names a task which has neither record nor
   * executor: nobody else speaks for that task. What it rejects with is logged, the start goes on.
   */
  readonly onUnreadable?: (message: UnreadableMessage, signal: AbortSignal) => Promise<void>;
  /** Hears of a message that is sealed with a key that we do not have. */
  readonly onSealed?: (message: SealedMessage) => void;
};

export type Recovered = {
  /** The last sequence that was read. */
  readonly scannedTo: number;
  /** Messages that are sealed with a key that we do not have: left as they are. */
  readonly undecryptable: number;
  /** The ids of assignments whose record was there and could not be read: it may name a stored report. */
  readonly unreadable: ReadonlySet<string>;
};

/**
 * Restores what an earlier controller knew: records, then each backend's executors, then the messages. An executor
 * without a record gets one, with its task if the message is there still: it may have claimed, so that no second one
 * is made. A backend that cannot be listed stops neither the other nor the start; its reconciler finds what it has.
 * Rejects while records or stream cannot be read; doing it again is fine.
 */
export async function recover(options: RecoverOptions, signal: AbortSignal): Promise<Recovered> {
  const { assignments, log } = options;
  const stored = await options.records.list(signal);
  for (const record of stored.records) assignments.restore(record);
  // As good as lost. One of which nothing else is left stays where it is: another version may be able to read it.
  const unreadable = new Set(stored.invalid.map(({ key }) => key));

  const orphans = await findOrphans(options, signal);
  const seen = { messages: 0, undecryptable: 0, scannedTo: 0 };
  for await (const { sequence, content } of options.queue.scan(signal)) {
    seen.scannedTo = sequence;
    switch (content.kind) {
      case "assignment": {
        seen.messages++;
        await takeIn(options, { ...content, sequence }, orphans.get(content.assignment.id), signal);
        break;
      }
      case "unknown-key":
        seen.undecryptable++;
        tellSealed(options, sequence, content);
        break;
      case "invalid":
        await tellUnreadable(options, content, (id) => orphans.has(id) || unreadable.has(id), signal);
        break;
      default:
        return content satisfies never;
    }
  }
  for (const [id, orphan] of orphans) await adoptOrphan(options, id, orphan, signal);
  holdSlotsOf(options);
  const { scannedTo, undecryptable } = seen;
  log.info({ records: stored.records.length, orphans: orphans.size, ...seen }, "recovered");
  return { scannedTo, undecryptable, unreadable };
}

async function takeIn(
  { assignments, queue }: RecoverOptions,
  message: Message,
  orphan: Executor | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { assignment, sequence, fetchedAt, compressedTask } = message;
  const { id } = assignment;
  const known = assignments.get(id)?.record;
  // What conflicts is judged when it is delivered.
  if (known !== undefined && !sameAssignment(known.assignment, assignment)) return;
  const phase = known?.phase.name;
  switch (phase) {
    case "claimed":
    case "ending":
    case "finished":
      // Needed no more; the former controller did not come to acknowledge it.
      await queue.remove(sequence, id, signal);
      return;
    case undefined:
      if (orphan !== undefined && sameAssignment(orphan.metadata.assignment, assignment)) {
        const { metadata, createdAt } = orphan;
        const found = { ...metadata, createdAt, message: { sequence, fetchedAt, compressedTask } };
        await assignments.within(id, () => assignments.adopt(found, signal));
        return;
      }
      break;
    case "queued":
    case "starting":
    case "adopted":
      break;
    default:
      return phase satisfies never;
  }
  await assignments.offer({ assignment, sequence, fetchedAt, compressedTask }, signal);
  // Stored anew by a controller that did not come to write that down.
  const record = assignments.get(id)?.record;
  if (record !== undefined && isUnclaimed(record) && record.sequence !== sequence)
    await assignments.within(id, () => assignments.apply(id, { type: "queued_again", sequence }, signal));
}

function tellSealed(
  { onSealed }: RecoverOptions,
  sequence: number,
  { assignmentId }: Extract<QueuedMessage["content"], { kind: "unknown-key" }>,
): void {
  if (assignmentId !== undefined) onSealed?.({ sequence, assignmentId });
}

async function tellUnreadable(
  { assignments, onUnreadable, times, clock, log }: RecoverOptions,
  { assignmentId, reason }: Extract<QueuedMessage["content"], { kind: "invalid" }>,
  isKnown: (id: string) => boolean,
  signal: AbortSignal,
): Promise<void> {
  if (assignmentId === undefined || onUnreadable === undefined) return;
  if (assignments.get(assignmentId) !== undefined || isKnown(assignmentId)) return;
  try {
    const call = (deadline: AbortSignal) => onUnreadable({ assignmentId, reason }, deadline);
    await withDeadline(clock, times.callMs, call, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    log.error(
      { assignment: assignmentId, error: describeError(error) },
      "unreadable message is not reported",
    );
  }
}

/** An empty list, or none, is no proof: what a record knows of holds its slot until the reconciler gives it back. */
function holdSlotsOf({ assignments, backends }: RecoverOptions): void {
  for (const { record } of assignments.all()) {
    const pool = backends.find(({ backend }) => backend.kind === record.assignment.backend);
    if (currentAttempt(record) !== undefined) pool?.slots.restore(record.assignment.id);
  }
}

import type { JetStreamManager } from "nats";
import type { Assignment } from "../assignment/assignment.ts";
import { type BackendKind, isBackendKind } from "../assignment/backend-kind.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import type { Clock } from "../platform/clock.ts";
import { apiErrorCode, apiErrors, readStored, readStoredAfter } from "../platform/jetstream.ts";
import type { NatsLink } from "../platform/nats-connection.ts";
import { createDelivery, type Delivery } from "./delivery.ts";
import { namedAssignment, type Opened, seal, type StoredTask } from "./envelope.ts";
import { TaskTooLargeError } from "./errors.ts";
import { fromJetStream } from "./from-jetstream.ts";
import { pull } from "./pull.ts";
import { readMessage } from "./read-message.ts";
import { assignmentSubject } from "./streams.ts";

export type Publication = StoredTask & {
  /**
   * The sequence of this assignment's message that got lost. Without it the server takes the message for a
   * repetition of the lost one, and drops it, for an hour.
   */
  readonly replaces?: number;
};

export type Published = {
  readonly sequence: number;
  /** An earlier try, whose answer got lost, had arrived. */
  readonly duplicate: boolean;
};

export type ScannedMessage = { readonly sequence: number; readonly content: Opened };

export type QueuePosition = {
  /** When the stream was made (RFC 3339): another one voids all sequences. */
  readonly created: string;
  readonly lastSequence: number;
  readonly messages: number;
};

/**
 * The durable queue of assignments, JetStream's side of it. Every method makes one try and rejects with
 * QueueUnavailableError for whatever may pass: the caller tries again. With an aborted signal they reject with its
 * reason.
 */
export type AssignmentQueue = {
  /** Stores a task. Trying again after an unknown outcome is safe. Rejects with TaskTooLargeError as well. */
  publish(publication: Publication, signal: AbortSignal): Promise<Published>;
  /** One message for a backend, undefined if none came within `expiresMs`. An abort hands it back. */
  next(
    backend: BackendKind,
    options: { readonly expiresMs: number },
    signal: AbortSignal,
  ): Promise<Delivery | undefined>;
  /** All messages in the order of their sequences, none of them consumed. */
  scan(signal: AbortSignal): AsyncIterable<ScannedMessage>;
  /** Those behind a sequence. */
  scanAfter(sequence: number, signal: AbortSignal): AsyncIterable<ScannedMessage>;
  position(signal: AbortSignal): Promise<QueuePosition>;
  /** Whether the message at a sequence is there and names that assignment. */
  has(sequence: number, assignmentId: string, signal: AbortSignal): Promise<boolean>;
  /** Deletes the message at a sequence if it names that assignment; what is gone is gone. */
  remove(sequence: number, assignmentId: string, signal: AbortSignal): Promise<"removed" | "gone" | "other">;
};

export type AssignmentQueueOptions = {
  readonly connection: NatsLink;
  readonly keyRing: KeyRing;
  readonly stream: string;
  readonly subjectBase: string;
  /** What a task says of itself: messages whose envelope says otherwise are not believed. */
  readonly assignmentOf: (compressedTask: Uint8Array) => Assignment | Promise<Assignment>;
  /** Unpredictable bytes. */
  readonly randomBytes: (size: number) => Uint8Array;
  readonly clock: Clock;
  readonly times?: Partial<QueueTimes>;
};

export type QueueTimes = {
  /** How long an answer of the server may take. */
  readonly requestMs: number;
  /** How long a message that comes too late for its pull is still handed back. */
  readonly lateMs: number;
};

const defaultTimes: QueueTimes = { requestMs: 5_000, lateMs: 60_000 };

export function createAssignmentQueue(options: AssignmentQueueOptions): AssignmentQueue {
  const { connection: link, keyRing, stream, subjectBase, clock } = options;
  const { requestMs, lateMs } = { ...defaultTimes, ...options.times };
  const reader = { link, stream, timeoutMs: requestMs };
  const read = (bytes: Uint8Array, subject: string) =>
    readMessage(options, bytes, backendOf(subjectBase, subject));

  const managed = <T>(request: (manager: JetStreamManager) => Promise<T>, signal: AbortSignal) =>
    link.exchange(
      async () => request(await link.nats.jetstreamManager({ checkAPI: false, timeout: requestMs })),
      signal,
    );

  const stillThere = async (sequence: number, assignmentId: string, signal: AbortSignal) => {
    // The server takes 0 for no number at all.
    if (sequence < 1) return "gone";
    const stored = await readStored(reader, { seq: sequence }, signal);
    if (stored === undefined) return "gone";
    return namedAssignment(stored.data) === assignmentId ? "same" : "other";
  };

  /** The stream may have a lower limit than the server. */
  const streamLimit = async (signal: AbortSignal) => {
    const info = await managed((manager) => manager.streams.info(stream), signal);
    return info.config.max_msg_size;
  };

  async function* scanAfter(after: number, signal: AbortSignal): AsyncGenerator<ScannedMessage> {
    const messages = readStoredAfter(reader, { subject: `${subjectBase}.*`, after }, signal);
    try {
      for await (const { seq, data, subject } of messages) {
        yield { sequence: seq, content: await read(data, subject) };
      }
    } catch (error) {
      throw fromJetStream("reading the stream", error, signal);
    }
  }

  return {
    publish: async (publication, signal) => {
      const { assignment, replaces } = publication;
      const data = seal(keyRing, publication, options.randomBytes);
      const msgID = replaces === undefined ? assignment.id : `${assignment.id}@${replaces}`;
      const size = data.length + headerBytes(msgID, stream);
      const limit = link.nats.info?.max_payload ?? Infinity;
      if (size > limit) throw new TaskTooLargeError(size, limit);
      try {
        const subject = assignmentSubject(subjectBase, assignment.backend);
        const publishing = { msgID, expect: { streamName: stream }, timeout: requestMs };
        const { seq, duplicate } = await link.exchange(
          () => link.nats.jetstream().publish(subject, data, publishing),
          signal,
        );
        return { sequence: seq, duplicate };
      } catch (error) {
        if (apiErrorCode(error) === apiErrors.messageTooLarge) {
          const lower = await streamLimit(signal).catch((cause: unknown) => {
            throw fromJetStream("reading the stream's limit", cause, signal);
          });
          throw new TaskTooLargeError(size, lower);
        }
        throw fromJetStream(`storing ${assignment.id}`, error, signal);
      }
    },
    next: async (backend, { expiresMs }, signal) => {
      const request = { link, clock, stream, consumer: backend, expiresMs, graceMs: requestMs, lateMs };
      const message = await pull(request, signal);
      if (message === undefined) return undefined;
      const content = await read(message.data, message.subject);
      return createDelivery({ link, timeoutMs: requestMs, stillThere }, message, content);
    },
    scan: (signal) => scanAfter(0, signal),
    scanAfter,
    position: async (signal) => {
      try {
        const { created, state } = await managed((manager) => manager.streams.info(stream), signal);
        return { created, lastSequence: state.last_seq, messages: state.messages };
      } catch (error) {
        throw fromJetStream("reading the stream's state", error, signal);
      }
    },
    has: async (sequence, assignmentId, signal) => {
      try {
        return (await stillThere(sequence, assignmentId, signal)) === "same";
      } catch (error) {
        throw fromJetStream(`looking for message ${sequence}`, error, signal);
      }
    },
    remove: async (sequence, assignmentId, signal) => {
      try {
        const there = await stillThere(sequence, assignmentId, signal);
        if (there !== "same") return there;
        await managed((manager) => manager.streams.deleteMessage(stream, sequence), signal);
        return "removed";
      } catch (error) {
        const code = apiErrorCode(error);
        // Acked by its worker between the two requests.
        if (code === apiErrors.sequenceNotFound || code === apiErrors.deleteFailed) return "gone";
        throw fromJetStream(`removing message ${sequence}`, error, signal);
      }
    },
  };
}

function backendOf(subjectBase: string, subject: string): BackendKind | undefined {
  const kind = subject.startsWith(`${subjectBase}.`) ? subject.slice(subjectBase.length + 1) : "";
  return isBackendKind(kind) ? kind : undefined;
}

/** What the headers add to a message: they count against the server's limit. */
function headerBytes(messageId: string, stream: string): number {
  return `NATS/1.0\r\nNats-Msg-Id: ${messageId}\r\nNats-Expected-Stream: ${stream}\r\n\r\n`.length;
}

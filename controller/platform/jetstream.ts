import { type MsgRequest, NatsError, type StoredMsg } from "nats";
import type { NatsLink } from "./nats-connection.ts";

/** Error codes of the JetStream API that somebody branches on; server/errors.json of nats-server has them all. */
export const apiErrors = {
  consumerNotFound: 10014,
  messageNotFound: 10037,
  sequenceNotFound: 10043,
  messageTooLarge: 10054,
  deleteFailed: 10057,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  wrongLastSequence: 10071,
  wrongLastSequenceInCluster: 10164,
} as const;

/** The code with which JetStream refused; undefined if the error is no answer of it, so that the outcome is open. */
export function apiErrorCode(error: unknown): number | undefined {
  return error instanceof NatsError ? error.api_error?.err_code : undefined;
}

/** By sequence, the last of a subject, or the first of a subject (wildcards allowed) from a sequence on. */
export type MessageQuery = MsgRequest | { readonly seq: number; readonly next_by_subj: string };

export type StreamReader = {
  readonly link: NatsLink;
  readonly stream: string;
  readonly timeoutMs: number;
};

/** One stored message, undefined if it is not there. A stream that is not there is an error (streamNotFound). */
export async function readStored(
  { link, stream, timeoutMs }: StreamReader,
  query: MessageQuery,
  signal: AbortSignal,
): Promise<StoredMsg | undefined> {
  try {
    return await link.exchange(async () => {
      const manager = await link.nats.jetstreamManager({ checkAPI: false, timeout: timeoutMs });
      return manager.streams.getMessage(stream, query);
    }, signal);
  } catch (error) {
    if (apiErrorCode(error) === apiErrors.messageNotFound) return undefined;
    throw error;
  }
}

/** The messages of a subject (wildcards allowed) behind a sequence, in order, none of them consumed. */
export async function* readStoredAfter(
  reader: StreamReader,
  { subject, after }: { readonly subject: string; readonly after: number },
  signal: AbortSignal,
): AsyncGenerator<StoredMsg> {
  for (let sequence = after + 1; ;) {
    const message = await readStored(reader, { seq: sequence, next_by_subj: subject }, signal);
    if (message === undefined) return;
    yield message;
    sequence = message.seq + 1;
  }
}

/** The stream in which JetStream keeps a bucket of its key-value store. */
export function bucketStream(bucket: string): string {
  return `KV_${bucket}`;
}

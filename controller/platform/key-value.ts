import { headers, type StoredMsg } from "nats";
import {
  apiErrorCode,
  apiErrors,
  bucketStream,
  readStored,
  readStoredAfter,
  type StreamReader,
} from "./jetstream.ts";
import type { NatsLink } from "./nats-connection.ts";

export type Entry = { readonly key: string; readonly value: Uint8Array; readonly revision: number };

export type Written =
  | { readonly kind: "stored"; readonly revision: number }
  /** The key is not at the expected revision any more. */
  | { readonly kind: "conflict" };

/**
 * A bucket of JetStream's key-value store, without the client's own API for it: there a lost bucket reads as
 * "no such key", and a deleted key leaves a marker for ever. A lost bucket is an error here (streamNotFound);
 * other errors are the client's, their outcome is open unless they have an API code.
 */
export type KeyValue = {
  read(key: string, signal: AbortSignal): Promise<Entry | undefined>;
  /** All keys without a dot. One that changes meanwhile may come twice, the newer value later. */
  entries(signal: AbortSignal): AsyncIterable<Entry>;
  /** The names of the keys that match a pattern (`*` is one part of a name, `>` all that follow), without order. */
  keys(pattern: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Writes if the key is at this revision, 0 meaning that it is absent. */
  write(key: string, value: Uint8Array, expected: number, signal: AbortSignal): Promise<Written>;
  /**
   * Removes the key, or with `upTo` only what it held up to that revision, and leaves nothing behind. A pattern as of
   * `keys` removes all that match.
   */
  purge(key: string, upTo: number | undefined, signal: AbortSignal): Promise<void>;
};

export function createKeyValue(options: {
  readonly link: NatsLink;
  readonly bucket: string;
  /** How long an answer of the server may take. */
  readonly timeoutMs?: number;
}): KeyValue {
  const { link, bucket, timeoutMs = 5_000 } = options;
  const prefix = `$KV.${bucket}.`;
  const reader: StreamReader = { link, stream: bucketStream(bucket), timeoutMs };
  const entry = (stored: StoredMsg): Entry => ({
    key: stored.subject.slice(prefix.length),
    value: stored.data,
    revision: stored.seq,
  });
  const last = (key: string, signal: AbortSignal) =>
    readStored(reader, { last_by_subj: prefix + key }, signal);

  const put = async (key: string, value: Uint8Array, expected: number, signal: AbortSignal) => {
    try {
      const request = () =>
        link.nats.jetstream().publish(prefix + key, value, {
          expect: { streamName: reader.stream, lastSubjectSequence: expected },
          headers: headers(),
          timeout: timeoutMs,
        });
      const { seq } = await link.exchange(request, signal);
      return { kind: "stored", revision: seq } as const;
    } catch (error) {
      const code = apiErrorCode(error);
      const lost = code === apiErrors.wrongLastSequence || code === apiErrors.wrongLastSequenceInCluster;
      if (lost) return { kind: "conflict" } as const;
      throw error;
    }
  };

  return {
    read: async (key, signal) => {
      const stored = await last(key, signal);
      return stored === undefined || isTombstone(stored) ? undefined : entry(stored);
    },
    entries: async function* (signal) {
      for await (const stored of readStoredAfter(reader, { subject: `${prefix}*`, after: 0 }, signal)) {
        if (!isTombstone(stored)) yield entry(stored);
      }
    },
    keys: async (pattern, signal) => {
      const { state } = await link.exchange(async () => {
        const manager = await link.nats.jetstreamManager({ checkAPI: false, timeout: timeoutMs });
        return manager.streams.info(reader.stream, { subjects_filter: prefix + pattern });
      }, signal);
      return Object.keys(state.subjects ?? {}).map((subject) => subject.slice(prefix.length));
    },
    write: async (key, value, expected, signal) => {
      const first = await put(key, value, expected, signal);
      if (first.kind === "stored" || expected !== 0) return first;
      // Somebody deleted the key with another tool: absent, though not at revision 0.
      const stored = await last(key, signal);
      return stored !== undefined && isTombstone(stored) ? put(key, value, stored.seq, signal) : first;
    },
    purge: async (key, upTo, signal) => {
      await link.exchange(async () => {
        const manager = await link.nats.jetstreamManager({ checkAPI: false, timeout: timeoutMs });
        // `seq` is the first sequence that stays.
        const filter = prefix + key;
        return manager.streams.purge(
          reader.stream,
          upTo === undefined ? { filter } : { filter, seq: upTo + 1 },
        );
      }, signal);
    },
  };
}

function isTombstone(stored: StoredMsg): boolean {
  const operation = stored.header.get("KV-Operation");
  return operation === "DEL" || operation === "PURGE";
}

import { NatsError } from "nats";
import type { AssignmentRecord } from "../../controller/assignment/record.ts";
import { apiErrors } from "../../controller/platform/jetstream.ts";
import type { Entry, KeyValue } from "../../controller/platform/key-value.ts";
import { decodeRecord } from "../../controller/record/record-codec.ts";
import type { Observe } from "./observed.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { callTimeouts } from "./sim-times.ts";

export type SimBucket = {
  keyValueFor(process: SimProcess): KeyValue;
  /** The bucket and all that is in it are gone. */
  lose(): void;
  /** Somebody makes it anew, empty. */
  makeAnew(): void;
  readonly keys: readonly string[];
  readonly writes: number;
  /** What is stored of an assignment now. */
  recordOf(assignmentId: string): AssignmentRecord | undefined;
};

/** A bucket of JetStream's key-value store: every write is a revision of the whole bucket. */
export function createSimBucket({
  network,
  observe,
}: {
  readonly network: SimNetwork;
  readonly observe: Observe;
}): SimBucket {
  let entries = new Map<string, Entry>();
  let revision = 0;
  let there = true;
  let writes = 0;

  const purge = (pattern: string, upTo: number | undefined) => {
    for (const { key, revision: at } of entries.values()) {
      if (!matches(pattern, key) || (upTo !== undefined && at > upTo)) continue;
      observe({ kind: "record-goes", key });
      entries.delete(key);
      writes++;
    }
  };
  const write = (key: string, value: Uint8Array, expected: number) => {
    if ((entries.get(key)?.revision ?? 0) !== expected) return { kind: "conflict" } as const;
    entries.set(key, { key, value, revision: ++revision });
    writes++;
    observe({ kind: "record-written", key });
    return { kind: "stored", revision } as const;
  };

  const keyValueFor = (process: SimProcess): KeyValue => {
    const lost = (why: string) => new Error(why);
    const ask = <T>(what: string, work: () => T, signal: AbortSignal) => {
      const effect = () => {
        if (!there) throw streamNotFound();
        return work();
      };
      const { natsMs: timeoutMs } = callTimeouts;
      return network.call({ from: process, to: "records", what, timeoutMs, lost, effect }, signal);
    };
    return {
      read: (key, signal) => ask(`read ${key}`, () => entries.get(key), signal),
      entries: async function* (signal) {
        const keys = await ask("list", () => [...entries.keys()].filter((key) => !key.includes(".")), signal);
        for (const key of keys) {
          const entry = await ask(`list ${key}`, () => entries.get(key), signal);
          if (entry !== undefined) yield entry;
        }
      },
      keys: (pattern, signal) =>
        ask(`keys ${pattern}`, () => [...entries.keys()].filter((key) => matches(pattern, key)), signal),
      write: (key, value, expected, signal) => ask(`write ${key}`, () => write(key, value, expected), signal),
      purge: (key, upTo, signal) => ask(`purge ${key}`, () => purge(key, upTo), signal),
    };
  };

  return {
    keyValueFor,
    lose: () => {
      entries = new Map();
      there = false;
    },
    makeAnew: () => {
      if (!there) revision = 0;
      there = true;
    },
    get keys() {
      return [...entries.keys()];
    },
    get writes() {
      return writes;
    },
    recordOf: (assignmentId) => {
      const entry = entries.get(assignmentId);
      const decoded = entry === undefined ? undefined : decodeRecord(entry.value);
      return decoded?.ok === true ? decoded.record : undefined;
    },
  };
}

/** As subjects match: `*` is one part of a name, `>` all that follow. */
function matches(pattern: string, key: string): boolean {
  const parts = pattern.split(".");
  const names = key.split(".");
  const fits = parts.at(-1) === ">" ? names.length >= parts.length : names.length === parts.length;
  return fits && parts.every((part, index) => part === ">" || part === "*" || part === names[index]);
}

function streamNotFound(): NatsError {
  const error = new NatsError("stream not found", "404");
  error.api_error = { code: 404, err_code: apiErrors.streamNotFound, description: "stream not found" };
  return error;
}

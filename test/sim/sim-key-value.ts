import { NatsError } from "nats";
import { apiErrors } from "../../controller/platform/jetstream.ts";
import type { Entry, KeyValue } from "../../controller/platform/key-value.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { scale } from "./scale.ts";

export type SimBucket = {
  keyValueFor(process: SimProcess): KeyValue;
  /** The bucket and all that is in it are gone. */
  lose(): void;
  /** Somebody makes it anew, empty. */
  makeAnew(): void;
  readonly keys: readonly string[];
  readonly writes: number;
};

const requestMs = 5_000 / scale;

/** A bucket of JetStream's key-value store: every write is a revision of the whole bucket. */
export function createSimBucket({ network }: { readonly network: SimNetwork }): SimBucket {
  let entries = new Map<string, Entry>();
  let revision = 0;
  let there = true;
  let writes = 0;

  const keyValueFor = (process: SimProcess): KeyValue => {
    const lost = (why: string) => new Error(why);
    const ask = <T>(what: string, effect: () => T, signal: AbortSignal) =>
      network.call(
        {
          from: process,
          to: "records",
          what,
          timeoutMs: requestMs,
          lost,
          effect: () => {
            if (!there) throw streamNotFound();
            return effect();
          },
        },
        signal,
      );
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
        ask(`keys ${pattern}`, () => [...entries.keys()].filter(matching(pattern)), signal),
      write: (key, value, expected, signal) =>
        ask(
          `write ${key}`,
          () => {
            if ((entries.get(key)?.revision ?? 0) !== expected) return { kind: "conflict" } as const;
            entries.set(key, { key, value, revision: ++revision });
            writes++;
            return { kind: "stored", revision } as const;
          },
          signal,
        ),
      purge: (key, upTo, signal) =>
        ask(
          `purge ${key}`,
          () => {
            for (const found of [...entries.values()])
              if (matching(key)(found.key) && (upTo === undefined || found.revision <= upTo))
                entries.delete(found.key);
          },
          signal,
        ),
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
  };
}

/** As subjects match: `*` is one part of a name, `>` all that follow. */
function matching(pattern: string): (key: string) => boolean {
  const parts = pattern.split(".").map((part) => (part === "*" ? "[^.]+" : part === ">" ? ".+" : part));
  const expression = new RegExp(`^${parts.join("\\.")}$`);
  return (key) => expression.test(key);
}

function streamNotFound(): NatsError {
  const error = new NatsError("stream not found", "404");
  error.api_error = { code: 404, err_code: apiErrors.streamNotFound, description: "stream not found" };
  return error;
}

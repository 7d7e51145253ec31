import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { AssignmentQueue, Publication } from "../../controller/queue/assignment-queue.ts";
import type { Delivery } from "../../controller/queue/delivery.ts";
import type { Opened } from "../../controller/queue/envelope.ts";
import { QueueUnavailableError } from "../../controller/queue/errors.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { scale } from "./scale.ts";

type Stored = {
  readonly sequence: number;
  readonly publication: Publication;
  readonly keyId: string;
  deliveries: number;
  /** Until then nobody else gets it: in hand, or handed back with a delay. */
  pendingUntil: number;
  /** Tells an answer to an earlier delivery from one to the last. */
  token: number;
};

type Pull = { readonly backend: BackendKind; readonly give: (stored: Stored) => void };

export type SimStream = {
  /** The queue as one process sees it; it opens only what was sealed with a key that it holds. */
  queueFor(process: SimProcess, keyIds: () => readonly string[]): AssignmentQueue;
  /** All messages and what the server remembers of them are gone; the stream is made anew. */
  lose(): void;
  /** The newest `count` messages are gone, as after a power failure; the sequence goes back too. */
  loseTail(count: number): void;
  snapshot(): () => void;
  readonly sequences: readonly number[];
  /** Whether a task was ever stored here. */
  everStored(taskId: bigint): boolean;
};

export type SimStreamOptions = {
  readonly clock: SimClock;
  readonly network: SimNetwork;
  readonly ackWaitMs: number;
  readonly duplicateWindowMs: number;
  readonly capacity: Readonly<Record<BackendKind, number>>;
};

const requestMs = 5_000 / scale;

/** JetStream's work queue as the controller uses it, with two durable pull consumers. */
export function createSimStream(options: SimStreamOptions): SimStream {
  const { clock, network, ackWaitMs, capacity } = options;
  let messages = new Map<number, Stored>();
  let ids = new Map<string, { readonly sequence: number; readonly at: number }>();
  let last = 0;
  let created = clock.now();
  let pulls: Pull[] = [];
  const everStored = new Set<bigint>();

  const serve = () => {
    for (const pull of pulls) {
      const mine = [...messages.values()].filter(
        ({ publication }) => publication.assignment.backend === pull.backend,
      );
      const pending = mine.filter(
        ({ deliveries, pendingUntil }) => deliveries > 0 && pendingUntil > clock.now(),
      );
      const due = mine
        .filter(({ pendingUntil }) => pendingUntil <= clock.now())
        // Redeliveries come first, and need no further place among the pending ones.
        .toSorted((a, b) => Number(b.deliveries > 0) - Number(a.deliveries > 0) || a.sequence - b.sequence)
        .find(({ deliveries }) => deliveries > 0 || pending.length < capacity[pull.backend]);
      if (due === undefined) continue;
      due.deliveries++;
      due.token++;
      due.pendingUntil = clock.now() + ackWaitMs;
      clock.after(ackWaitMs + 1, serve);
      pulls = pulls.filter((other) => other !== pull);
      pull.give(due);
    }
  };

  const store = (publication: Publication, keyId: string) => {
    const { assignment, replaces } = publication;
    const id = replaces === undefined ? assignment.id : `${assignment.id}@${replaces}`;
    const known = ids.get(id);
    if (known !== undefined && clock.now() - known.at < options.duplicateWindowMs)
      return { sequence: known.sequence, duplicate: true };
    const sequence = ++last;
    everStored.add(assignment.taskId);
    ids.set(id, { sequence, at: clock.now() });
    messages.set(sequence, { sequence, publication, keyId, deliveries: 0, pendingUntil: 0, token: 0 });
    serve();
    return { sequence, duplicate: false };
  };

  const queueFor = (process: SimProcess, keyIds: () => readonly string[]): AssignmentQueue => {
    const lost = (why: string) => new QueueUnavailableError(why);
    const ask = <T>(what: string, effect: () => T, signal: AbortSignal) =>
      network.call({ from: process, to: "queue", what, timeoutMs: requestMs, lost, effect }, signal);
    const tell = (what: string, effect: () => void) => {
      ask(what, effect, new AbortController().signal).catch(() => undefined);
    };
    const opened = ({ publication, keyId }: Stored): Opened => {
      if (!keyIds().includes(keyId))
        return { kind: "unknown-key", keyId, assignmentId: publication.assignment.id };
      const { assignment, fetchedAt, compressedTask } = publication;
      return { kind: "assignment", assignment, fetchedAt, compressedTask };
    };
    const stored = (sequence: number, id: string) => {
      const found = messages.get(sequence);
      if (found === undefined) return "gone";
      return found.publication.assignment.id === id ? "same" : "other";
    };

    const delivery = (message: Stored): Delivery => {
      const { sequence, token } = message;
      const { id } = message.publication.assignment;
      let open = true;
      /** An answer counts for whatever lies at the sequence now, unless the delivery is not the last any more. */
      const current = () => {
        const now = messages.get(sequence);
        return now?.token === token ? now : undefined;
      };
      return {
        sequence,
        deliveryCount: message.deliveries,
        content: opened(message),
        inProgress: () => {
          if (!open) return;
          tell("in progress", () => {
            const now = current();
            if (now !== undefined && now.pendingUntil > clock.now())
              now.pendingUntil = clock.now() + ackWaitMs;
            clock.after(ackWaitMs + 1, serve);
          });
        },
        retryLater: (ms) => {
          if (!open) return;
          open = false;
          tell("nak", () => {
            const now = current();
            if (now === undefined) return;
            now.pendingUntil = clock.now() + ms;
            clock.after(ms + 1, serve);
          });
        },
        reject: () => {
          if (!open) return;
          open = false;
          tell("term", () => {
            if (current() !== undefined) messages.delete(sequence);
          });
        },
        acknowledge: async (signal) => {
          const there = await ask("look before ack", () => stored(sequence, id), signal);
          if (there !== "same") {
            open = false;
            return there === "gone";
          }
          await ask(
            "ack",
            () => {
              messages.delete(sequence);
              serve();
            },
            signal,
          );
          open = false;
          return true;
        },
      };
    };

    async function* scanAfter(after: number, signal: AbortSignal) {
      for (let from = after; ;) {
        const found = await ask(
          "scan",
          () =>
            [...messages.values()]
              .filter(({ sequence }) => sequence > from)
              .toSorted((a, b) => a.sequence - b.sequence)[0],
          signal,
        );
        if (found === undefined) return;
        yield { sequence: found.sequence, content: opened(found) };
        from = found.sequence;
      }
    }

    return {
      publish: (publication, signal) =>
        ask("publish", () => store(publication, keyIds()[0] ?? "none"), signal),
      next: async (backend, { expiresMs }, signal) => {
        const given = Promise.withResolvers<Stored | undefined>();
        let wanted = true;
        const pull: Pull = {
          backend,
          give: (stored) => {
            const { token } = stored;
            clock.after(2, () => {
              // A pull whose process is gone has taken its message along: the ack wait brings it back.
              process.deliver(() => {
                if (wanted) given.resolve(stored);
                else if (stored.token === token) tell("nak", () => void (stored.pendingUntil = 0));
              });
            });
          },
        };
        await ask(
          "pull",
          () => {
            pulls.push(pull);
            serve();
          },
          signal,
        );
        const expired = process.clock.sleep(expiresMs, signal).then(() => undefined);
        try {
          const message = await Promise.race([given.promise, expired]);
          return message === undefined ? undefined : delivery(message);
        } finally {
          wanted = false;
          expired.catch(() => undefined);
          pulls = pulls.filter((other) => other !== pull);
        }
      },
      has: (sequence, id, signal) => ask("has", () => stored(sequence, id) === "same", signal),
      scan: (signal) => scanAfter(0, signal),
      scanAfter,
      position: (signal) =>
        ask(
          "position",
          () => ({
            created: new Date(created).toISOString(),
            lastSequence: last,
            messages: messages.size,
          }),
          signal,
        ),
      remove: (sequence, id, signal) =>
        ask(
          "remove",
          () => {
            const there = stored(sequence, id);
            if (there !== "same") return there;
            messages.delete(sequence);
            serve();
            return "removed";
          },
          signal,
        ),
    };
  };

  return {
    queueFor,
    lose: () => {
      messages = new Map();
      ids = new Map();
      last = 0;
      created = clock.now();
    },
    loseTail: (count) => {
      const gone = [...messages.keys()].toSorted((a, b) => b - a).slice(0, count);
      for (const sequence of gone) messages.delete(sequence);
      const lowest = Math.min(...gone);
      if (gone.length > 0) last = lowest - 1;
      for (const [id, { sequence }] of ids) if (sequence >= lowest) ids.delete(id);
    },
    snapshot: () => {
      const copy = structuredClone([...messages.values()]);
      const kept = { ids: new Map(ids), last };
      return () => {
        messages = new Map(copy.map((one) => [one.sequence, { ...one, pendingUntil: 0 }]));
        ids = kept.ids;
        last = kept.last;
        created = clock.now();
        serve();
      };
    },
    get sequences() {
      return [...messages.keys()];
    },
    everStored: (taskId) => everStored.has(taskId),
  };
}

import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { Publication } from "../../controller/queue/assignment-queue.ts";
import type { Observe } from "./observed.ts";
import type { SimClock } from "./sim-clock.ts";
import { simLimits } from "./sim-times.ts";

export type StoredMessage = {
  readonly sequence: number;
  readonly publication: Publication;
  /** Names the key that it is sealed with. */
  readonly keyId: string;
  deliveries: number;
  /** Until then nobody else gets it: in hand, or handed back with a delay. */
  pendingUntil: number;
  /** Tells an answer to an earlier delivery from one to the last. */
  token: number;
};

export type Pull = {
  readonly backend: BackendKind;
  readonly expiresMs: number;
  readonly give: (message: StoredMessage) => void;
};

/** JetStream's server: the work queue with its two durable pull consumers, and what may become of it. */
export type SimStream = {
  publish(
    publication: Publication,
    keyId: string,
  ): { readonly sequence: number; readonly duplicate: boolean };
  /** Waits for a message, until it expires at the latest; returns how to stop that. */
  pull(pull: Pull): () => void;
  at(sequence: number): StoredMessage | undefined;
  /** In the order of their sequences. */
  after(sequence: number): readonly StoredMessage[];
  position(): { readonly created: string; readonly lastSequence: number; readonly messages: number };
  /** Says until when a delivery is pending; one that is not the last any more says nothing. */
  keep(sequence: number, token: number, pendingUntil: number): void;
  remove(sequence: number, how: "ack" | "remove" | "term"): void;
  /** All messages and what the server remembers of them are gone; the stream is made anew. */
  lose(): void;
  /** The newest `count` messages are gone, as after a power failure; the sequence goes back too. */
  loseTail(count: number): void;
  /** Returns how to put back what is there now. */
  snapshot(): () => void;
  readonly writes: number;
};

export type SimStreamOptions = {
  readonly clock: SimClock;
  readonly observe: Observe;
  readonly capacity: Readonly<Record<BackendKind, number>>;
};

export function createSimStream({ clock, observe, capacity }: SimStreamOptions): SimStream {
  let messages = new Map<number, StoredMessage>();
  let ids = new Map<string, { readonly sequence: number; readonly at: number }>();
  let last = 0;
  let created = clock.now();
  let pulls: Pull[] = [];
  let writes = 0;

  const dueFor = (backend: BackendKind): StoredMessage | undefined => {
    const now = clock.now();
    const mine = [...messages.values()].filter(
      ({ publication }) => publication.assignment.backend === backend,
    );
    const pending = mine.filter(({ deliveries, pendingUntil }) => deliveries > 0 && pendingUntil > now);
    return (
      mine
        .filter(({ pendingUntil }) => pendingUntil <= now)
        // Redeliveries come first, and need no further place among the pending ones.
        .toSorted((a, b) => Number(b.deliveries > 0) - Number(a.deliveries > 0) || a.sequence - b.sequence)
        .find(({ deliveries }) => deliveries > 0 || pending.length < capacity[backend])
    );
  };

  const pend = (message: StoredMessage, until: number) => {
    message.pendingUntil = until;
    clock.after(until - clock.now() + 1, serve);
  };

  const serve = () => {
    for (const pull of pulls) {
      const due = dueFor(pull.backend);
      if (due === undefined) continue;
      due.deliveries++;
      due.token++;
      pend(due, clock.now() + simLimits.ackWaitMs);
      pulls = pulls.filter((other) => other !== pull);
      pull.give(due);
    }
  };

  return {
    publish: (publication, keyId) => {
      const { assignment, replaces } = publication;
      const id = replaces === undefined ? assignment.id : `${assignment.id}@${replaces}`;
      const known = ids.get(id);
      if (known !== undefined && clock.now() - known.at < simLimits.duplicateWindowMs)
        return { sequence: known.sequence, duplicate: true };
      const sequence = ++last;
      ids.set(id, { sequence, at: clock.now() });
      messages.set(sequence, { sequence, publication, keyId, deliveries: 0, pendingUntil: 0, token: 0 });
      writes++;
      observe({ kind: "message-stored", assignmentId: assignment.id });
      serve();
      return { sequence, duplicate: false };
    },
    pull: (pull) => {
      const stop = () => {
        pulls = pulls.filter((other) => other !== pull);
      };
      pulls.push(pull);
      clock.after(pull.expiresMs, stop);
      serve();
      return stop;
    },
    at: (sequence) => messages.get(sequence),
    after: (from) =>
      [...messages.values()]
        .filter(({ sequence }) => sequence > from)
        .toSorted((a, b) => a.sequence - b.sequence),
    position: () => ({
      created: new Date(created).toISOString(),
      lastSequence: last,
      messages: messages.size,
    }),
    keep: (sequence, token, pendingUntil) => {
      const message = messages.get(sequence);
      if (message?.token === token) pend(message, pendingUntil);
    },
    remove: (sequence, how) => {
      const message = messages.get(sequence);
      if (message === undefined) return;
      observe({ kind: "message-goes", assignmentId: message.publication.assignment.id, how });
      messages.delete(sequence);
      writes++;
      serve();
    },
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
      const copy = [...messages.values()].map((message) => ({ ...message, pendingUntil: 0 }));
      const kept = { ids: new Map(ids), last };
      return () => {
        messages = new Map(copy.map((message) => [message.sequence, { ...message }]));
        ids = kept.ids;
        last = kept.last;
        created = clock.now();
        serve();
      };
    },
    get writes() {
      return writes;
    },
  };
}

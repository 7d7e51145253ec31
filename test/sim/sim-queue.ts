import type { AssignmentQueue } from "../../controller/queue/assignment-queue.ts";
import type { Delivery } from "../../controller/queue/delivery.ts";
import type { Opened } from "../../controller/queue/envelope.ts";
import { QueueUnavailableError } from "../../controller/queue/errors.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import type { SimStream, StoredMessage } from "./sim-stream.ts";
import { callTimeouts, simLimits } from "./sim-times.ts";

export type SimQueueOptions = {
  readonly clock: SimClock;
  readonly network: SimNetwork;
  readonly stream: SimStream;
  readonly process: SimProcess;
  /** The keys that it holds; the first seals. */
  readonly keyIds: readonly string[];
};

/** From the server to a process that has asked for a message. */
const deliveryMs = 2;

/** The queue as one process sees it; it opens only what was sealed with a key that it holds. */
export function createSimQueue(options: SimQueueOptions): AssignmentQueue {
  const { clock, network, stream, process, keyIds } = options;
  const { natsMs: timeoutMs } = callTimeouts;
  const lost = (why: string) => new QueueUnavailableError(why);
  const ask = <T>(what: string, effect: () => T, signal: AbortSignal) =>
    network.call({ from: process, to: "queue", what, timeoutMs, lost, effect }, signal);
  const tell = (what: string, effect: () => void) => {
    ask(what, effect, new AbortController().signal).catch(() => undefined);
  };
  const opened = ({ publication, keyId }: StoredMessage): Opened => {
    const { assignment, fetchedAt, compressedTask } = publication;
    if (!keyIds.includes(keyId)) return { kind: "unknown-key", keyId, assignmentId: assignment.id };
    return { kind: "assignment", assignment, fetchedAt, compressedTask };
  };
  const there = (sequence: number, id: string) => {
    const found = stream.at(sequence);
    if (found === undefined) return "gone";
    return found.publication.assignment.id === id ? "same" : "other";
  };

  const deliveryOf = (message: StoredMessage): Delivery => {
    const { sequence, token } = message;
    const { id } = message.publication.assignment;
    let open = true;
    /** An answer counts for whatever lies at the sequence now, unless the delivery is not the last any more. */
    const current = () => stream.at(sequence)?.token === token;
    return {
      sequence,
      deliveryCount: message.deliveries,
      content: opened(message),
      inProgress: () => {
        if (!open) return;
        tell("in progress", () => {
          if ((stream.at(sequence)?.pendingUntil ?? 0) > clock.now())
            stream.keep(sequence, token, clock.now() + simLimits.ackWaitMs);
        });
      },
      retryLater: (ms) => {
        if (!open) return;
        open = false;
        tell("nak", () => {
          stream.keep(sequence, token, clock.now() + ms);
        });
      },
      reject: () => {
        if (!open) return;
        open = false;
        tell("term", () => {
          if (current()) stream.remove(sequence, "term");
        });
      },
      acknowledge: async (signal) => {
        const found = await ask("look before ack", () => there(sequence, id), signal);
        if (found === "same") await ask("ack", () => stream.remove(sequence, "ack"), signal);
        open = false;
        return found !== "other";
      },
    };
  };

  async function* scanAfter(after: number, signal: AbortSignal) {
    for (let from = after; ;) {
      const found = await ask("scan", () => stream.after(from)[0], signal);
      if (found === undefined) return;
      yield { sequence: found.sequence, content: opened(found) };
      from = found.sequence;
    }
  }

  const next: AssignmentQueue["next"] = async (backend, { expiresMs }, signal) => {
    const given = Promise.withResolvers<StoredMessage | undefined>();
    let wanted = true;
    let stop: () => void = () => undefined;
    const give = (message: StoredMessage) => {
      const { token } = message;
      const arrive = () => {
        if (wanted) given.resolve(message);
        else tell("nak", () => stream.keep(message.sequence, token, clock.now()));
      };
      // A pull whose process is gone has taken its message along: the ack wait brings it back.
      clock.after(deliveryMs, () => process.deliver(arrive));
    };
    await ask("pull", () => void (stop = stream.pull({ backend, expiresMs, give })), signal);
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    const expired = process.clock.sleep(expiresMs, either).then(() => undefined);
    expired.catch(() => undefined);
    try {
      const message = await Promise.race([given.promise, expired]);
      return message === undefined ? undefined : deliveryOf(message);
    } finally {
      wanted = false;
      over.abort();
      stop();
    }
  };

  return {
    publish: (publication, signal) =>
      ask("publish", () => stream.publish(publication, keyIds[0] ?? "none"), signal),
    next,
    has: (sequence, id, signal) => ask("has", () => there(sequence, id) === "same", signal),
    scan: (signal) => scanAfter(0, signal),
    scanAfter,
    position: (signal) => ask("position", () => stream.position(), signal),
    remove: (sequence, id, signal) =>
      ask(
        "remove",
        () => {
          const found = there(sequence, id);
          if (found !== "same") return found;
          stream.remove(sequence, "remove");
          return "removed";
        },
        signal,
      ),
  };
}

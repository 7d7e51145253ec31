import type { Msg } from "nats";
import type { NatsLink } from "../platform/nats-connection.ts";
import { ackWord, handBack, reportProgress, terminate } from "./acks.ts";
import type { Opened } from "./envelope.ts";
import { fromJetStream } from "./from-jetstream.ts";

/** A message in hand. Nobody else gets it as long as progress is reported more often than the ack wait. */
export type Delivery = {
  readonly sequence: number;
  /** From 1. */
  readonly deliveryCount: number;
  readonly content: Opened;
  /** Begins the ack wait anew. Nothing happens once the delivery was given back, rejected or acknowledged. */
  inProgress(): void;
  /** Gives the message back, to be delivered again after `ms`. */
  retryLater(ms: number): void;
  /** Removes the message for good, saying why. If that gets lost, the message comes again. */
  reject(reason: string): void;
  /**
   * Removes the message after the work was done; true when the server has confirmed it, also for the second time.
   * False when the message is not the one that was delivered: its stream was lost and made anew. Rejects with
   * QueueUnavailableError while the outcome is open: the caller asks again, or the message comes again.
   */
  acknowledge(signal: AbortSignal): Promise<boolean>;
};

export type AckContext = {
  readonly link: NatsLink;
  readonly timeoutMs: number;
  /** Whether the message at this sequence is still that of the assignment, or none is there any more. */
  stillThere(sequence: number, assignmentId: string, signal: AbortSignal): Promise<"same" | "gone" | "other">;
};

export function createDelivery(context: AckContext, message: Msg, content: Opened): Delivery {
  const { sequence, deliveryCount } = deliveryInfo(message);
  const { link, timeoutMs } = context;
  let open = true;
  return {
    sequence,
    deliveryCount,
    content,
    inProgress: () => {
      // After a negative ack it would push the redelivery away.
      if (open) reportProgress(message);
    },
    retryLater: (ms) => {
      if (open) handBack(message, ms);
      open = false;
    },
    reject: (reason) => {
      if (open) terminate(message, reason);
      open = false;
    },
    acknowledge: async (signal) => {
      try {
        const { assignmentId } = content.kind === "assignment" ? idOf(content.assignment) : content;
        // An ack names a sequence only: in a stream that was made anew it would remove another task's message.
        if (assignmentId !== undefined) {
          const there = await context.stillThere(sequence, assignmentId, signal);
          if (there !== "same") {
            open = false;
            return there === "gone";
          }
        }
        await link.exchange(
          () => link.nats.request(replyOf(message), ackWord, { timeout: timeoutMs, noMux: false }),
          signal,
        );
        open = false;
        return true;
      } catch (error) {
        throw fromJetStream(`acknowledging message ${sequence}`, error, signal);
      }
    },
  };
}

function idOf({ id }: { readonly id: string }): { readonly assignmentId: string } {
  return { assignmentId: id };
}

/** `$JS.ACK[.<domain>.<account>].<stream>.<consumer>.<delivered>.<stream sequence>.…`, counted from the end. */
export function deliveryInfo(message: Msg): { readonly sequence: number; readonly deliveryCount: number } {
  const tokens = replyOf(message).split(".");
  const offset = tokens.length > 9 ? 2 : 0;
  return { deliveryCount: Number(tokens[4 + offset]), sequence: Number(tokens[5 + offset]) };
}

function replyOf(message: Msg): string {
  return message.reply ?? "";
}

import { createInbox, type Msg, nanos } from "nats";
import type { Clock } from "../platform/clock.ts";
import type { NatsLink } from "../platform/nats-connection.ts";
import { handBack } from "./acks.ts";
import { QueueUnavailableError } from "./errors.ts";

export type PullRequest = {
  readonly link: NatsLink;
  readonly clock: Clock;
  readonly stream: string;
  readonly consumer: string;
  /** How long the server may wait for a message. */
  readonly expiresMs: number;
  /** How much longer its answer may take. */
  readonly graceMs: number;
  /** How long after that a late message is still looked for, to be handed back. */
  readonly lateMs: number;
};

/**
 * Asks a consumer for one message; undefined if none came in time. A message that was sent to us would block its
 * consumer until the ack wait is over, so none is dropped: an abort takes effect when the server has answered, and
 * a message that comes after we gave up is handed back. Rejects with QueueUnavailableError or the signal's reason.
 *
 * This is the pull request of https://docs.nats.io/reference/reference-protocols/nats_api_reference and not the
 * client's `next`, which gives up on a silent server without caring about what may still come.
 */
export async function pull(request: PullRequest, signal: AbortSignal): Promise<Msg | undefined> {
  const { link, clock, stream, consumer, expiresMs, graceMs, lateMs } = request;
  signal.throwIfAborted();
  if (!link.connected()) throw new QueueUnavailableError("NATS is not connected");

  const answer = Promise.withResolvers<Msg | undefined>();
  let waiting = true;
  const inbox = createInbox();
  const subscription = link.nats.subscribe(inbox, {
    max: 1,
    timeout: expiresMs + graceMs + lateMs,
    callback: (error, message) => {
      if (error !== null) {
        subscription.unsubscribe();
        answer.reject(new QueueUnavailableError("the consumer did not answer", { cause: error }));
      } else if (message.subject === inbox) {
        const status = refusal(consumer, message);
        if (status === undefined) answer.resolve(undefined);
        else answer.reject(status);
      } else if (waiting) {
        answer.resolve(message);
      } else {
        handBack(message, 0);
      }
    },
  });
  const forget = link.onLost(() => {
    // The server forgets the pull together with the connection.
    subscription.unsubscribe();
    answer.reject(new QueueUnavailableError("the connection to NATS was lost"));
  });
  const timer = new AbortController();
  const silence = clock.sleep(expiresMs + graceMs, timer.signal).then(() => {
    throw new QueueUnavailableError(`the consumer ${consumer} did not answer in time`);
  });
  try {
    const body = JSON.stringify({ batch: 1, expires: nanos(expiresMs) });
    link.nats.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, body, { reply: inbox });
    const message = await Promise.race([answer.promise, silence]);
    if (!signal.aborted) return message;
    if (message !== undefined) handBack(message, 0);
    throw signal.reason;
  } finally {
    waiting = false;
    timer.abort();
    forget();
    answer.promise.catch(() => undefined);
    silence.catch(() => undefined);
  }
}

/** What the server says instead of a message: undefined for "there is none", an error for all else. */
function refusal(consumer: string, message: Msg): QueueUnavailableError | undefined {
  const code = message.headers?.code ?? 0;
  if (code === 404 || code === 408) return undefined;
  // No responders: nobody serves this consumer, or JetStream as a whole.
  const text = code === 503 ? "it is missing or JetStream is down" : (message.headers?.description ?? "");
  return new QueueUnavailableError(`the consumer ${consumer} does not serve (${code} ${text})`);
}

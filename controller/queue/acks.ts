import { type Msg, nanos } from "nats";

/*
 * The words of https://docs.nats.io/using-nats/developer/develop_jetstream/consumers#delivery-reliability, as they
 * are published to a message's reply subject. One that is lost costs nothing but the ack wait, so a connection that
 * is closed is no error here.
 */

/** Confirmed by an answer when requested as a request. */
export const ackWord = "+ACK";

/** Not now: the message is delivered again after the delay, or at once. */
export function handBack(message: Msg, delayMs: number): void {
  send(message, delayMs > 0 ? `-NAK ${JSON.stringify({ delay: nanos(delayMs) })}` : "-NAK");
}

/** Still at it: the ack wait begins again. */
export function reportProgress(message: Msg): void {
  send(message, "+WPI");
}

/** Never again: the message is removed, the reason goes into the server's advisory. */
export function terminate(message: Msg, reason: string): void {
  send(message, `+TERM ${reason}`);
}

function send(message: Msg, word: string): void {
  try {
    message.respond(word);
  } catch {
    // Closed for good: the server redelivers by itself.
  }
}

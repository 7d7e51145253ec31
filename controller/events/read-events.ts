import { taskIdOf } from "../assignment/assignment.ts";
import { isBackendKind } from "../assignment/backend-kind.ts";
import { apiErrorCode, apiErrors, readStoredAfter } from "../platform/jetstream.ts";
import type { NatsLink } from "../platform/nats-connection.ts";
import { isAbortOf } from "../platform/signal.ts";
import { type History, historyOf, type StoredMessage } from "./stored-event.ts";

export type EventSource = {
  readonly link: NatsLink;
  /** The event stream's name. */
  readonly stream: string;
  /** Where an assignment's or a backend's events are. */
  readonly subject: (about: string) => string;
  /** How long an answer of the server may take. */
  readonly requestMs?: number;
};

/** The events cannot be read now. `stream-missing`: JetStream answers, and keeps no events. */
export class EventsUnavailableError extends Error {
  override readonly name = "EventsUnavailableError";
  readonly reason: "unreachable" | "stream-missing";

  constructor(reason: "unreachable" | "stream-missing", message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

const defaultRequestMs = 5_000;

/**
 * What happened to an assignment or a backend, as far back as the stream goes; empty for what is neither. For people:
 * nothing that the controller does may depend on it. Rejects with EventsUnavailableError, or with the signal's reason.
 */
export async function readEvents(
  { link, stream, subject, requestMs = defaultRequestMs }: EventSource,
  about: string,
  signal: AbortSignal,
): Promise<History> {
  // Anything else could be a wildcard.
  if (taskIdOf(about) === undefined && !isBackendKind(about)) return historyOf(about, []);
  const messages: StoredMessage[] = [];
  try {
    const reader = { link, stream, timeoutMs: requestMs };
    const query = { subject: subject(about), after: 0 };
    for await (const { data, header } of readStoredAfter(reader, query, signal))
      messages.push({ data, id: header.get("Nats-Msg-Id") });
  } catch (error) {
    if (isAbortOf(signal, error)) throw error;
    const missing = apiErrorCode(error) === apiErrors.streamNotFound;
    const doing = `reading the events of ${about}`;
    throw new EventsUnavailableError(missing ? "stream-missing" : "unreachable", doing, { cause: error });
  }
  return historyOf(about, messages);
}

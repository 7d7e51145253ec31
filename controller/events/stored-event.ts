import { z } from "zod";
import { tidyEvidence } from "../assignment/evidence.ts";

/** Made tidy on the way out as well: whoever may write into the stream decides what stands there. */
const text = z.string().transform(tidyEvidence);
/** Of a version that says it otherwise nothing is known, and the rest of the event still holds. */
const maybeText = text.optional().catch(undefined);

/** Fields that are not known are left out; without the first three nothing can be told. */
const storedEvent = z.object({
  v: z.number(),
  at: z.number().int().nonnegative(),
  event: text,
  assignment: maybeText,
  taskId: maybeText,
  backend: maybeText,
  from: maybeText,
  to: maybeText,
  attempt: z.number().int().positive().optional().catch(undefined),
  executor: maybeText,
  reason: maybeText,
  evidence: maybeText,
  controller: maybeText,
});

/**
 * An event as it is found: written by this version or by another one, so names may be unknown and fields absent.
 * `at` is in milliseconds since the epoch.
 */
export type StoredEvent = Readonly<z.output<typeof storedEvent>>;

export type StoredMessage = {
  readonly data: Uint8Array;
  /** The message id by which the server knows a repetition; empty if there is none. */
  readonly id: string;
};

export type History = {
  /** In the order in which they were stored. */
  readonly events: readonly StoredEvent[];
  /** Messages that are no event of this assignment or backend. */
  readonly unreadable: number;
};

/**
 * The history of one assignment, or of one backend, out of the messages of its subject. A message that was stored
 * twice, because its first answer got lost for longer than the server remembers ids, counts once.
 */
export function historyOf(about: string, messages: readonly StoredMessage[]): History {
  const events: StoredEvent[] = [];
  const ids = new Set<string>();
  let unreadable = 0;
  for (const { data, id } of messages) {
    if (id !== "" && ids.has(id)) continue;
    ids.add(id);
    const event = decodeEvent(data);
    if (event !== undefined && (event.assignment ?? event.backend) === about) events.push(event);
    else unreadable++;
  }
  return { events, unreadable };
}

function decodeEvent(data: Uint8Array): StoredEvent | undefined {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(data).toString("utf8"));
  } catch {
    return undefined;
  }
  return storedEvent.safeParse(json).data;
}

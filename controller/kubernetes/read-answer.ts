import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { WatchEvent } from "./kubernetes-api.ts";
import { refusalInEvent } from "./refusal.ts";

/**
 * The events of a watch, a JSON object on each line. Throws what an ERROR event says, and an Error for what is no
 * event or longer than `maxBytes`. Ends when the answer does; half a line before that is dropped.
 */
export async function* readEvents(
  answer: Readable,
  what: string,
  maxBytes: number,
): AsyncGenerator<WatchEvent> {
  const decoder = new StringDecoder("utf8");
  let begun: string[] = [];
  let length = 0;
  const add = (part: string) => {
    begun.push(part);
    length += part.length;
    if (length > maxBytes) throw new Error(`an event is longer than ${maxBytes} bytes`);
  };
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    const [first = "", ...further] = decoder.write(chunk).split("\n");
    add(first);
    for (const next of further) {
      const line = begun.join("");
      begun = [];
      length = 0;
      add(next);
      if (line !== "") yield parseEvent(line, what);
    }
  }
}

const types = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] as const;

function parseEvent(line: string, what: string): WatchEvent {
  const { type: name, object } = objectOf(line);
  if (name === "ERROR") throw refusalInEvent(what, object);
  const type = types.find((known) => known === name);
  if (type === undefined || typeof object !== "object" || object === null)
    throw new Error("what the watch told is no event");
  return { type, object };
}

function objectOf(line: string): { readonly type?: unknown; readonly object?: unknown } {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

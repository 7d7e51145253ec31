import { createHash } from "node:crypto";
import { InvalidAssignmentError } from "../../assignment/errors.ts";
import type { Texts } from "../../assignment/executor-metadata.ts";

/** Number of the chunks and checksum of what they hold. Present only with guarded ones. */
const chunksLabel = "ci.ddupan.top/annotation-chunks";
const chunkPrefix = "ci.ddupan.top/annotations-";

/** A label's value has 63 characters at most, and one at either end is the guard. */
const chunkLength = 61;
/** Each list and each change carries all of them. */
export const maxChunks = 64;

/**
 * Annotations as labels, because sandboxes have no other metadata: base64url of their JSON, cut into chunks. A label's
 * value must begin and end with a letter or a digit, and base64url has `-` and `_`: each chunk stands between two guards.
 * The same annotations always give the same labels. Throws InvalidAssignmentError, which says what is too long.
 */
export function annotationLabels(annotations: Texts): Texts {
  const sorted = Object.entries(annotations).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const text = Buffer.from(JSON.stringify(Object.fromEntries(sorted))).toString("base64url");
  const count = Math.ceil(text.length / chunkLength);
  if (count > maxChunks) throw tooLong(annotations, count);
  const chunks = Array.from({ length: count }, (_, index): [string, string] => [
    chunkKey(index),
    `a${text.slice(index * chunkLength, (index + 1) * chunkLength)}z`,
  ]);
  return { ...Object.fromEntries(chunks), [chunksLabel]: `${count}-${checksum(text)}` };
}

/**
 * The annotations that stand in the labels: as written here, or in the older form, which has no guards, no number and no
 * checksum. Throws InvalidAssignmentError, which names the label, if a chunk is missing, one too many or damaged.
 */
export function annotationsIn(labels: Texts): Texts {
  const chunks = sortedChunks(labels);
  const announced = labels[chunksLabel];
  return announced === undefined ? parse(chunks.join("")) : parse(unguarded(chunks, announced));
}

function sortedChunks(labels: Texts): readonly string[] {
  const chunks = Object.entries(labels)
    .filter(([key]) => key.startsWith(chunkPrefix))
    .map(([key, value]) => ({ key, value, index: indexOf(key) }))
    // By number: as texts `-1000` would come before `-101`.
    .toSorted((a, b) => a.index - b.index);
  for (const [place, { key, index }] of chunks.entries())
    if (index !== place) throw new InvalidAssignmentError(`${key} is there instead of ${chunkKey(place)}`);
  if (chunks.length === 0) throw new InvalidAssignmentError(`${chunkKey(0)} is missing`);
  return chunks.map(({ value }) => value);
}

function indexOf(key: string): number {
  const digits = key.slice(chunkPrefix.length);
  if (!/^[0-9]{3,9}$/.test(digits)) throw new InvalidAssignmentError(`${key} has no number`);
  return Number(digits);
}

function unguarded(chunks: readonly string[], announced: string): string {
  const inner = chunks.map((chunk, index) => {
    const payload = /^[A-Za-z0-9](.+)[A-Za-z0-9]$/.exec(chunk)?.[1];
    if (payload === undefined) throw new InvalidAssignmentError(`${chunkKey(index)} has no guards`);
    return payload;
  });
  const text = inner.join("");
  if (announced !== `${chunks.length}-${checksum(text)}`)
    throw new InvalidAssignmentError(
      `${chunksLabel} does not fit the ${chunks.length} chunks that are there`,
    );
  return text;
}

function parse(text: string): Texts {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.toString("base64url") !== text) throw damaged();
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (isTexts(value)) return value;
  } catch (error) {
    throw damaged(error);
  }
  throw damaged();
}

function isTexts(value: unknown): value is Texts {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((one) => typeof one === "string");
}

function damaged(cause?: unknown): InvalidAssignmentError {
  return new InvalidAssignmentError(`${chunkPrefix}… hold no annotations`, { cause });
}

function tooLong(annotations: Texts, count: number): InvalidAssignmentError {
  const [longest] = Object.entries(annotations).toSorted(([, a], [, b]) => b.length - a.length);
  const culprit = longest === undefined ? "" : `: ${longest[0]} alone has ${longest[1].length} characters`;
  return new InvalidAssignmentError(
    `its annotations are too long, they need ${count} labels and may have ${maxChunks}${culprit}`,
  );
}

function chunkKey(index: number): string {
  return chunkPrefix + String(index).padStart(3, "0");
}

function checksum(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

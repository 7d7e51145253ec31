/** So much of a value is never shown in one piece. */
const hiddenSize = 8;
/** What is shorter hides nothing, and stands in many words by chance. */
const shortestHidden = 4;

/**
 * The text without any piece of these values, also where it quotes one in part, cut off or escaped as JSON or a URL has
 * it. A value of up to 8 characters is looked for as a whole; one of fewer than 4 is no secret, and is left.
 */
export function hideParts(text: string, values: readonly string[]): string {
  const units = Array.from(text);
  const hidden = units.map(() => false);
  for (const value of new Set(values.flatMap(formsOf))) {
    const of = Array.from(value);
    const size = Math.min(hiddenSize, of.length);
    if (size < shortestHidden) continue;
    const pieces = new Set(
      of.slice(0, of.length - size + 1).map((_, at) => of.slice(at, at + size).join("")),
    );
    for (let at = 0; at + size <= units.length; at++)
      if (pieces.has(units.slice(at, at + size).join(""))) hidden.fill(true, at, at + size);
  }
  return units
    .map((unit, at) => (hidden[at] !== true ? unit : hidden[at - 1] === true ? "" : "[redacted]"))
    .join("");
}

/** One line, whatever it has in it. */
export function asLine(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, " ").trim();
}

function formsOf(value: string): readonly string[] {
  return [value, asLine(value), JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())];
}

import type { SecretName } from "./read-settings.ts";

const shortestKey = 32;

/**
 * What a controller would find wrong with these secrets, a sentence for each, without a character of it. It reads them from files
 * whose ends it trims.
 */
export function secretMistakes(given: ReadonlyMap<SecretName, string>): readonly string[] {
  return [...given].flatMap(([name, value]) => {
    const mistake = name === "capabilityKeys" ? wrongWithKeys(value) : wrongWithWord(value);
    return mistake === undefined ? [] : [`${name}: ${mistake}`];
  });
}

function wrongWithKeys(lines: string): string | undefined {
  const keys = lines
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
  if (keys.length === 0) return "it holds no key";
  if (keys.some(({ length }) => length < shortestKey))
    return `a key has fewer than ${shortestKey} characters: openssl rand -base64 48 makes one`;
  return undefined;
}

function wrongWithWord(value: string): string | undefined {
  if (value.trim() === "") return "it is empty";
  if (value.trim() !== value || /\p{Cc}/u.test(value))
    return "it has white space around it, or several lines";
  return undefined;
}

import { apiError, coded } from "./answer.ts";

// In the server's language `$` lets a line's end through, which the cluster refuses then.
const keyName = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\n?$/;
const keyPrefix = /^(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?\n?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?\n?$/;

/** Throws as the server does for what is no label. */
export function checkLabels(labels: Readonly<Record<string, string>>): void {
  for (const [key, value] of Object.entries(labels)) {
    if (!isKey(key)) throw noLabel(`Metadata key '${key}' is invalid`);
    if (value.length > 63 || !labelValue.test(value))
      throw noLabel(`Metadata value '${value}' for key '${key}' is invalid`);
  }
}

/** Throws as the cluster does, which comes after the server's own look. */
export function checkStored(labels: Readonly<Record<string, string>>, sent: unknown): void {
  for (const text of Object.entries(labels).flat()) if (text.endsWith("\n")) throw apiError(sent);
}

/** The server's own. */
export function isReserved(key: string): boolean {
  return key.startsWith("opensandbox.io/");
}

function isKey(key: string): boolean {
  const slash = key.indexOf("/");
  const [prefix, name] = slash === -1 ? [undefined, key] : [key.slice(0, slash), key.slice(slash + 1)];
  if (name.length > 63 || !keyName.test(name)) return false;
  return prefix === undefined || (prefix.length <= 253 && keyPrefix.test(prefix));
}

function noLabel(message: string) {
  return coded(400, "SANDBOX::INVALID_METADATA_LABEL", message);
}

import type { LogFields, Logger } from "../../controller/platform/logger.ts";

/** Hands each line that says something went on to `note`; what is written for debugging is left out. */
export function createSimLogger(who: string, note: (text: string) => void, bound: LogFields = {}): Logger {
  const write = (level: string) => (fields: LogFields, message: string) => {
    const all = Object.entries({ ...bound, ...fields })
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
    note(`${who} ${level} ${message} ${all.join(" ")}`);
  };
  return {
    debug: () => undefined,
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: (fields) => createSimLogger(who, note, { ...bound, ...fields }),
  };
}

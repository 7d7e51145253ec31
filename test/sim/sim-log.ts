import type { LogFields, Logger } from "../../controller/platform/logger.ts";
import type { History } from "./history.ts";

/** Hands each line that says something went on to the history; what is written for debugging is left out. */
export function createSimLogger(who: string, history: History, bound: LogFields = {}): Logger {
  const nothing = () => undefined;
  const write = (level: string) => (fields: LogFields, message: string) => {
    const all = Object.entries({ ...bound, ...fields })
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
    history.note(`${who} ${level} ${message} ${all.join(" ")}`);
  };
  if (!history.kept) {
    const silent: Logger = {
      debug: nothing,
      info: nothing,
      warn: nothing,
      error: nothing,
      child: () => silent,
    };
    return silent;
  }
  return {
    debug: nothing,
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    child: (fields) => createSimLogger(who, history, { ...bound, ...fields }),
  };
}

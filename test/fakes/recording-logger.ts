import type { LogFields, Logger } from "../../controller/platform/logger.ts";

export type LogLine = {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: LogFields;
  readonly message: string;
};

/** A logger that keeps its lines, those of its children with them. */
export type RecordingLogger = Logger & {
  readonly lines: readonly LogLine[];
  /** Resolves to the first line with this message behind the `after`th one, as soon as there is one. */
  line(message: string, after?: number): Promise<LogLine>;
  /** All lines as JSON, for looking for what must not be there. */
  text(): string;
};

export function createRecordingLogger(): RecordingLogger {
  const lines: LogLine[] = [];
  const watchers = new Set<() => void>();
  const logger = (bound: LogFields): Logger => {
    const at = (level: LogLine["level"]) => (fields: LogFields, message: string) => {
      lines.push({ level, fields: { ...bound, ...fields }, message });
      for (const watcher of watchers) watcher();
    };
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => logger({ ...bound, ...fields }),
    };
  };
  return {
    ...logger({}),
    lines,
    line: (message, after = 0) =>
      new Promise((resolve) => {
        const look = () => {
          const found = lines.slice(after).find((line) => line.message === message);
          if (found === undefined) return;
          watchers.delete(look);
          resolve(found);
        };
        watchers.add(look);
        look();
      }),
    text: () =>
      JSON.stringify(lines, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
  };
}

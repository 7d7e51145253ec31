import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";

/** Tells of calls that fail, each reason once, and of the end of that. */
export type OutageLog = {
  failed(error: unknown): void;
  passed(): void;
  /** Whether the last call failed. */
  lasts(): boolean;
};

export function createOutageLog(log: Logger, call: string): OutageLog {
  let told: string | undefined;
  return {
    failed: (error) => {
      const text = describeError(error);
      if (text !== told) log.warn({ call, error: text }, "facade does not answer yet");
      told = text;
    },
    passed: () => {
      if (told !== undefined) log.info({ call }, "facade answers again");
      told = undefined;
    },
    lasts: () => told !== undefined,
  };
}

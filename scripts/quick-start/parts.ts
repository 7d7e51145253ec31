import { readFile } from "node:fs/promises";
import { describeError } from "../../controller/platform/errors.ts";
import { abortable } from "../../controller/platform/signal.ts";

/** One of the programs that make up a run. */
export type Part = {
  /** What error messages call it. */
  readonly name: string;
  readonly logFile: string;
  /** Resolves to how it ended; never rejects. */
  readonly exited: Promise<string>;
  /** Ends it in order and resolves when nothing of it is left; once more is no error. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
};

/** Knows which programs run, notices when one ends that nobody stopped, and counts those that were stopped. */
export type Parts = {
  add(part: Part): void;
  /** Stops one that was added, and takes it off the list. */
  stop(part: Part): Promise<void>;
  /** Rejects as soon as a part has ended by itself, with the end of its log; with the signal's reason when aborted. */
  readonly failure: (signal: AbortSignal) => Promise<never>;
  /** How many ran until they were stopped. */
  stopped(): number;
};

const shownLines = 15;
const shownColumns = 300;

/** Once `hurry` is aborted, parts are killed instead of stopped, also those whose stop has begun. */
export function createParts(hurry: AbortSignal): Parts {
  const running = new Set<Part>();
  const wanted = new Set<Part>();
  const ended = Promise.withResolvers<{ readonly part: Part; readonly how: string }>();
  let stopped = 0;
  hurry.addEventListener("abort", () => {
    for (const part of running) part.kill();
  });
  const watch = async (part: Part) => {
    const how = await part.exited;
    running.delete(part);
    if (!wanted.has(part) && !hurry.aborted) ended.resolve({ part, how });
  };
  return {
    add: (part) => {
      running.add(part);
      if (hurry.aborted) part.kill();
      void watch(part);
    },
    stop: async (part) => {
      const ran = running.has(part);
      wanted.add(part);
      if (hurry.aborted) part.kill();
      await part.stop();
      if (ran) stopped++;
    },
    failure: async (signal) => {
      const { part, how } = await abortable(ended.promise, signal);
      throw new Error(`${part.name} ended with ${how}; ${await endOfLog(part.logFile)}`);
    },
    stopped: () => stopped,
  };
}

/** The last lines of a log file, introduced, for an error message. */
export async function endOfLog(file: string): Promise<string> {
  try {
    const lines = (await readFile(file, "utf8")).trimEnd().split("\n").slice(-shownLines);
    return `the end of its log:\n${lines.map((line) => `  ${line.slice(0, shownColumns)}`).join("\n")}`;
  } catch (error) {
    return `its log cannot be read: ${describeError(error)}`;
  }
}

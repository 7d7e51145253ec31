import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";

/** What a controller has logged so far. */
export type ControllerLines = {
  readonly lines: readonly ControllerLine[];
  readonly add: (line: ControllerLine) => void;
  /** The first line, logged already or yet to come, that fits. Rejects after 100 s unless told otherwise. */
  readonly line: (fits: (line: ControllerLine) => boolean, deadlineMs?: number) => Promise<ControllerLine>;
};

const lineMs = 100_000;

export function createControllerLines(): ControllerLines {
  const lines: ControllerLine[] = [];
  const waiting = new Set<(line: ControllerLine) => void>();
  return {
    lines,
    add: (line) => {
      lines.push(line);
      for (const hear of waiting) hear(line);
    },
    line: async (fits, deadlineMs = lineMs) => {
      const found = lines.find((line) => fits(line));
      if (found !== undefined) return found;
      const { promise, resolve, reject } = Promise.withResolvers<ControllerLine>();
      const hear = (line: ControllerLine) => {
        if (fits(line)) resolve(line);
      };
      waiting.add(hear);
      const tooLate = () => reject(new Error(`no such line came within ${deadlineMs / 1000} s`));
      const late = setTimeout(tooLate, deadlineMs);
      try {
        return await promise;
      } finally {
        clearTimeout(late);
        waiting.delete(hear);
      }
    },
  };
}

/** What a failed test is understood by: the last lines, and before them those that complain of one job. */
export function telling(lines: readonly ControllerLine[]): readonly ControllerLine[] {
  const last = lines.slice(-60);
  const complaints = lines
    .slice(0, -60)
    .filter(({ level, assignment }) => level !== "info" && assignment !== undefined);
  return [...complaints.slice(-60), ...last];
}

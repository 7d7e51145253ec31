import type { Clock } from "../../controller/platform/clock.ts";

/** What a run tells of itself, for people. Most runs have no reader: then nothing is kept. */
export type History = {
  /** Whether anybody will read it; what costs time to put into words looks here first. */
  readonly kept: boolean;
  readonly lines: readonly string[];
  note(text: string): void;
};

/** Each line begins with the seconds since the start. */
export function createHistory(clock: Pick<Clock, "now">, kept: boolean): History {
  const startedAt = clock.now();
  const lines: string[] = [];
  return {
    kept,
    lines,
    note: (text) => {
      if (kept) lines.push(`${((clock.now() - startedAt) / 1000).toFixed(3)} ${text}`);
    },
  };
}

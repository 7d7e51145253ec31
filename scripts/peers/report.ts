import type { Clock } from "../../controller/platform/clock.ts";
import { systemClock } from "../../controller/platform/clock.ts";

/** Hears what is done about the peers; `subject` is a peer's name and version. */
export type Report = {
  /** A fact worth one line. */
  note(subject: string, text: string): void;
  /** Work that may take long has begun; `detail` says how far it is. The returned function ends it. */
  begin(subject: string, text: string): Step;
};

export type Step = {
  detail(text: string): void;
  /** Says how it ended: "done", "failed". */
  end(outcome: string): void;
};

/** Says nothing. */
export const silentReport: Report = {
  note: () => undefined,
  begin: () => ({ detail: () => undefined, end: () => undefined }),
};

/** What a report writes to: stderr, or a test's own. */
export type ReportStream = { readonly isTTY?: boolean; write(text: string): unknown };

const plainEveryMs = 15_000;
const terminalEveryMs = 1_000;

/** Lines for people. On a terminal the work in hand is one line that ticks; elsewhere a plain line tells every 15 s that it goes on. */
export function createReport(stream: ReportStream = process.stderr, clock: Clock = systemClock): Report {
  const terminal = stream.isTTY === true;
  const bold = (text: string) => (terminal ? `\u001B[1m${text}\u001B[0m` : text);
  const wipe = terminal ? "\r\u001B[2K" : "";
  return {
    note: (subject, text) => {
      stream.write(`${wipe}${bold(subject)}: ${text}\n`);
    },
    begin: (subject, text) => {
      const started = clock.now();
      const seconds = () => `${Math.round((clock.now() - started) / 1000)} s`;
      let detail = "";
      const line = () =>
        `${bold(subject)}: ${text} (${[seconds(), detail].filter((part) => part !== "").join(", ")})`;
      const tick = () => stream.write(terminal ? `${wipe}${line()}` : `${line()}\n`);
      stream.write(terminal ? line() : `${subject}: ${text}\n`);
      const ended = new AbortController();
      void tickUntil(clock, terminal ? terminalEveryMs : plainEveryMs, tick, ended.signal);
      return {
        detail: (next) => {
          detail = next;
        },
        end: (outcome) => {
          ended.abort();
          stream.write(`${wipe}${line()}: ${outcome}\n`);
        },
      };
    },
  };
}

async function tickUntil(
  clock: Clock,
  everyMs: number,
  tick: () => void,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (;;) {
      await clock.sleep(everyMs, signal);
      tick();
    }
  } catch {
    // The work has ended.
  }
}

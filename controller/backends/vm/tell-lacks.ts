import type { Failure } from "../../assignment/failure.ts";
import type { Clock } from "../../platform/clock.ts";

const everyMs = 5_000;

/** Tells when time alone changes what a VM lacks: nothing else does. Runs until the signal is aborted, and rejects then. */
export async function tellLacks(
  parts: {
    /** Whatever may lack something. */
    readonly names: () => readonly string[];
    readonly lack: (name: string) => Failure | undefined;
    readonly onChange: (name: string) => void;
    readonly clock: Clock;
  },
  signal: AbortSignal,
): Promise<void> {
  const { lack, onChange, clock } = parts;
  let before = new Map<string, string | undefined>();
  for (;;) {
    const now = new Map(parts.names().map((name) => [name, lack(name)?.evidence]));
    for (const [name, evidence] of now) if (before.get(name) !== evidence) onChange(name);
    before = now;
    await clock.sleep(everyMs, signal);
  }
}

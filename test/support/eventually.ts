import { systemClock } from "../../controller/platform/clock.ts";

const defaultEveryMs = 100;

/**
 * Resolves when `done` says so: for what nobody tells us of. Rejects after `deadlineMs` with what was waited for. What is
 * dear to ask is asked less often.
 */
export async function eventually(
  what: string,
  done: () => boolean | Promise<boolean>,
  deadlineMs = 100_000,
  everyMs = defaultEveryMs,
): Promise<void> {
  const late = AbortSignal.timeout(deadlineMs);
  while (!(await done())) {
    if (late.aborted) throw new Error(`not within ${deadlineMs / 1000} s: ${what}`);
    await systemClock.sleep(everyMs, new AbortController().signal);
  }
}

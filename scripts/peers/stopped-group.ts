import { readdir } from "node:fs/promises";
import { systemClock } from "../../controller/platform/clock.ts";
import { readProcessStat } from "./process-stat.ts";
import { within } from "./within.ts";

const deadlineMs = 30_000;
const lookMs = 5;
/** Stopped, or over: see proc_pid_stat(5). */
const idle = new Set(["T", "Z", "X"]);

/**
 * Resolves once no thread of a process group that was sent SIGSTOP does anything: on a busy machine one may go on for a while, and
 * answer somebody. Rejects when that takes half a minute. Without `/proc` it believes in the signal.
 */
export async function untilGroupStopped(group: number): Promise<void> {
  if (process.platform !== "linux") return;
  const look = async (signal: AbortSignal) => {
    while (!(await isGroupStopped(group))) await systemClock.sleep(lookMs, signal);
  };
  await within(deadlineMs, `stopping process group ${group}`, look, new AbortController().signal);
}

async function isGroupStopped(group: number): Promise<boolean> {
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const { group: own } = await readProcessStat(`/proc/${pid}/stat`);
    if (own !== group) continue;
    const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
    const states = await Promise.all(
      threads.map((thread) => readProcessStat(`/proc/${pid}/task/${thread}/stat`)),
    );
    if (!states.every(({ state }) => idle.has(state))) return false;
  }
  return true;
}

import { readdirSync, readFileSync } from "node:fs";

type Found = readonly { readonly pid: number; readonly command: string }[];

/** Processes that call themselves something that begins so (the first word of their command line). */
export function findProcesses(beginning: string): Found {
  return processes().filter(({ command }) => command.startsWith(beginning));
}

/** Processes with this in their command line. */
export function processesMentioning(text: string): Found {
  return processes().filter(({ command }) => command.includes(text));
}

function processes(): Found {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), command: commandOf(name) }));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    // It has ended meanwhile.
    return "";
  }
}

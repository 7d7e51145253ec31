import { readdirSync, readFileSync } from "node:fs";

/** Processes that call themselves something that begins so (the first word of their command line). */
export function findProcesses(beginning: string): readonly { readonly pid: number }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && commandOf(name).startsWith(beginning))
    .map((name) => ({ pid: Number(name) }));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    // It has ended meanwhile.
    return "";
  }
}

import { readdirSync, readFileSync } from "node:fs";
import { hasErrorCode } from "./error-code.ts";
import { hasNoEnvironment, parseStat, parseUids } from "./process-stat.ts";

export type ProcessInfo = {
  readonly pid: number;
  readonly group: number;
  readonly session: number;
  readonly startTime: number;
  /** It has ended and only waits for its parent to notice. */
  readonly zombie: boolean;
};

/** The machine's processes. Synchronous: /proc answers from memory, and a look is one moment, not several. */
export type ProcessTable = {
  readonly bootId: string;
  /** Those that have not ended, with their uids (real, effective, saved, file system). */
  living(): readonly (ProcessInfo & { readonly uids: readonly number[] })[];
  find(pid: number): ProcessInfo | undefined;
  /**
   * `NAME=value` as it was started; empty if it is gone or not ours to read. Undefined while it becomes another program: then
   * it has one that cannot be seen yet.
   */
  environment(pid: number): readonly string[] | undefined;
  /** To a process, or to a group if the number is negative. One that is gone or not ours is no error. */
  signal(target: number, name: NodeJS.Signals): void;
};

/** Throws where there is no /proc. */
export function createProcessTable(): ProcessTable {
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  return {
    bootId,
    find,
    living: () =>
      readdirSync("/proc")
        .filter((name) => /^[0-9]+$/.test(name))
        .flatMap((name) => {
          const pid = Number(name);
          const info = find(pid);
          const status = read(`/proc/${pid}/status`);
          if (info === undefined || info.zombie || status === undefined) return [];
          return [{ ...info, uids: parseUids(status) }];
        }),
    environment: (pid) => {
      const text = read(`/proc/${pid}/environ`);
      if (text !== "") return text?.split("\0") ?? [];
      const stat = read(`/proc/${pid}/stat`);
      return stat === undefined || hasNoEnvironment(stat) ? [] : undefined;
    },
    signal: (target, name) => {
      try {
        process.kill(target, name);
      } catch (error) {
        if (!hasErrorCode(error, "ESRCH", "EPERM")) throw error;
      }
    },
  };
}

function find(pid: number): ProcessInfo | undefined {
  const text = read(`/proc/${pid}/stat`);
  return text === undefined ? undefined : { pid, ...parseStat(text) };
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    // It ended between two looks (ESRCH while reading), or it is somebody else's.
    if (hasErrorCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return undefined;
    throw error;
  }
}

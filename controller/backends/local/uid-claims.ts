import { lstat, mkdir, readdir, readlink, stat, symlink, unlink } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "../../platform/clock.ts";
import { hasErrorCode, isMissing } from "./error-code.ts";

/** Who has which uid of this machine: known to all controllers on it, also of executors of which nothing runs. */
export type UidClaims = {
  /** Those that somebody has. What is left of executors whose folder is gone is cleaned up. */
  taken(): Promise<readonly number[]>;
  /** Takes it for the executor in this folder, which is there. False if somebody was faster. */
  take(uid: number, folder: string): Promise<boolean>;
  /** Gives it back; does nothing if it is not this folder's. */
  release(uid: number, folder: string): Promise<void>;
};

/** For all of this machine's controllers; gone with the next boot, as all executors are. */
export const uidClaimsFolder = "/run/gitea-dynamic-runner/uids";

/** A claim of this age without a folder is nobody's: a folder is there before its claim, and goes right before it. */
const forgottenMs = 60_000;

/**
 * Everything of an executor's uid is killed at its end, so no two may ever have the same: also not the next one of another
 * controller that starts between the end of a process and the look that kills what it has left behind. Each claim is a
 * link named by the uid to the executor's folder; whoever makes it first has it.
 */
export function createUidClaims(clock: Pick<Clock, "now">, claims = uidClaimsFolder): UidClaims {
  const linkOf = (uid: number) => path.join(claims, String(uid));
  const isForgotten = async (link: string): Promise<boolean> => {
    try {
      await stat(link);
      return false;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    const made = await ignoringMissing(lstat(link));
    return made !== undefined && clock.now() - made.mtimeMs > forgottenMs;
  };
  return {
    taken: async () => {
      const names = (await ignoringMissing(readdir(claims))) ?? [];
      for (const name of names) {
        const link = path.join(claims, name);
        if (await isForgotten(link)) await ignoringMissing(unlink(link));
      }
      return names.map(Number);
    },
    take: async (uid, folder) => {
      await mkdir(claims, { recursive: true, mode: 0o755 });
      try {
        await symlink(folder, linkOf(uid));
        return true;
      } catch (error) {
        if (hasErrorCode(error, "EEXIST")) return false;
        throw error;
      }
    },
    release: async (uid, folder) => {
      if ((await ignoringMissing(readlink(linkOf(uid)))) === folder)
        await ignoringMissing(unlink(linkOf(uid)));
    },
  };
}

async function ignoringMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

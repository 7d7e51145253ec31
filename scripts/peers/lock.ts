import { randomUUID } from "node:crypto";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import * as z from "zod";
import type { Clock } from "../../controller/platform/clock.ts";
import { within } from "./within.ts";

export type LockOptions = {
  readonly clock: Clock;
  /** Milliseconds to wait for another owner. */
  readonly deadline: number;
  /** Called once when another process holds the lock. */
  readonly onWait: (owner: number) => void;
};

const ownerSchema = z.object({ pid: z.int().positive(), started: z.string() });
type Owner = z.infer<typeof ownerSchema>;

const pollMs = 200;

/**
 * Does the work while this process holds the lock file. Waits while a process that is alive holds it; the lock of one that is gone
 * is taken over. Rejects when the deadline passes. Two owners at once would be a waste, not a harm: what the lock guards is put in
 * place by a rename.
 */
export async function withLock<T>(
  file: string,
  options: LockOptions,
  work: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  await mkdir(dirname(file), { recursive: true });
  const own = `${file}.${randomUUID()}`;
  await writeFile(own, JSON.stringify({ pid: process.pid, started: await startOf(process.pid) }));
  try {
    // A link, not an exclusive create: nobody ever reads a lock file that is not written yet.
    const wait = (inner: AbortSignal) => linkWhenFree(own, file, options, inner);
    await within(options.deadline, `waiting for the lock ${file}`, wait, signal);
  } finally {
    await rm(own, { force: true });
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function linkWhenFree(
  own: string,
  file: string,
  options: LockOptions,
  signal: AbortSignal,
): Promise<void> {
  for (let round = 0; ; round++) {
    signal.throwIfAborted();
    if (await linkedTo(own, file)) return;
    const owner = await readOwner(file);
    if (owner === "gone") continue;
    if (owner === "unreadable" || !(await isAlive(owner))) {
      await removeStale(file, owner);
      continue;
    }
    if (round === 0) options.onWait(owner.pid);
    await options.clock.sleep(pollMs, signal);
  }
}

async function linkedTo(own: string, file: string): Promise<boolean> {
  try {
    await link(own, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function readOwner(file: string): Promise<Owner | "gone" | "unreadable"> {
  try {
    return ownerSchema.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "gone" : "unreadable";
  }
}

/** Moves the lock aside first: of two that saw the same dead owner only one removes it, and a newer owner's lock is put back. */
async function removeStale(file: string, seen: Owner | "unreadable"): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  const moved = await readOwner(aside);
  if (JSON.stringify(moved) !== JSON.stringify(seen)) await linkedTo(aside, file);
  await rm(aside, { force: true });
}

async function isAlive(owner: Owner): Promise<boolean> {
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    // EPERM: it lives, under another user.
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  return (await startOf(owner.pid)) === owner.started;
}

/** When the process began, as Linux counts it; empty elsewhere. A pid that was given out again has another start. */
async function startOf(pid: number): Promise<string> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may hold blanks; the start time is the 20th word after it.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

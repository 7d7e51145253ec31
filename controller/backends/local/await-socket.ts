import { type FSWatcher, watch } from "node:fs";
import { lstat } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "../../platform/clock.ts";
import { abortable } from "../../platform/signal.ts";
import { isMissing } from "./error-code.ts";

/** Resolves to true as soon as there is a socket at `file`, to false when there is none after `withinMs`. Watches its folder. */
export async function awaitSocket(
  file: string,
  withinMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const over = new AbortController();
  const all = AbortSignal.any([signal, over.signal]);
  const timeout = clock.sleep(withinMs, all).then(() => "timeout" as const);
  // The loop may be done before it waits for it.
  timeout.catch(() => undefined);
  try {
    for (;;) {
      all.throwIfAborted();
      const changed = await nextChange(file, all);
      if (changed === undefined) continue;
      try {
        if (await isSocket(file)) return true;
        if ((await Promise.race([timeout, changed.promise])) === "timeout") return await isSocket(file);
      } finally {
        changed.stop();
      }
    }
  } finally {
    over.abort();
  }
}

type Change = { readonly promise: Promise<void>; stop(): void };

/** The next change in the nearest folder above a file that is there; undefined if a nearer one came meanwhile. */
async function nextChange(file: string, signal: AbortSignal): Promise<Change | undefined> {
  const folder = await nearestFolder(file);
  const { promise, resolve } = Promise.withResolvers<void>();
  let watcher: FSWatcher;
  try {
    watcher = watch(folder, { persistent: false }, () => resolve());
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  watcher.once("error", () => resolve());
  const waiting = abortable(promise, signal);
  waiting.catch(() => undefined);
  const change = { promise: waiting, stop: () => watcher.close() };
  if ((await nearestFolder(file)) === folder) return change;
  change.stop();
  return undefined;
}

async function nearestFolder(file: string): Promise<string> {
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    try {
      if ((await lstat(folder)).isDirectory() || folder === path.dirname(folder)) return folder;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}

async function isSocket(file: string): Promise<boolean> {
  try {
    return (await lstat(file)).isSocket();
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

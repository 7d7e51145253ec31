import { watch } from "node:fs";
import { chmod, mkdir, rm } from "node:fs/promises";
import { entriesFolder, socketsFolder } from "../../controller/backends/local/workload-entry.ts";
import { describeError } from "../../controller/platform/errors.ts";
import type { Logger } from "../../controller/platform/logger.ts";
import { createWakeup, type Wakeup } from "../../controller/platform/wakeup.ts";
import { scanEntries } from "./scan-entries.ts";
import { createServedWorkloads } from "./served-workloads.ts";
import { openWorkloadSocket, type WorkloadSocketOptions } from "./workload-socket.ts";

export type ServeOptions = WorkloadSocketOptions & {
  readonly log: Logger;
  /** Called once all entries that are there at the start are served. */
  readonly onReady: () => void;
};

/** fs.watch may lose events, so the entries are also read at this pace. */
const rescanMs = 1_000;

/** Serves what the entries folder says until the signal is aborted; then all sockets are gone. */
export async function serveEntries(options: ServeOptions, signal: AbortSignal): Promise<void> {
  const { folder, authority, clock, log, onReady } = options;
  await mkdir(entriesFolder(folder), { recursive: true, mode: 0o700 });
  // What a killed process left behind.
  await rm(socketsFolder(folder), { recursive: true, force: true });
  await mkdir(socketsFolder(folder));
  // Workloads have to pass through.
  await chmod(socketsFolder(folder), 0o711);
  const workloads = createServedWorkloads((name, entry) => openWorkloadSocket(name, entry, options));
  const report = createReporter(log);
  const changes = createWakeup();
  const stopWatching = watchFolder(entriesFolder(folder), changes, log);
  try {
    for (let first = true; !signal.aborted; first = false) {
      const round = new AbortController();
      const over = AbortSignal.any([signal, round.signal]);
      // Taken before the scan, or a change during it would be missed.
      const changed = changes.next(over);
      const due = clock.sleep(rescanMs, over);
      const next = Promise.race([changed, due]).catch(() => {});
      report(await pass());
      if (first) onReady();
      await next;
      round.abort();
    }
  } finally {
    stopWatching();
    await workloads.reconcile(new Map());
  }

  async function pass(): Promise<ReadonlyMap<string, string>> {
    try {
      const { entries, problems } = await scanEntries(folder, authority.trustDomain);
      return new Map([...problems, ...(await workloads.reconcile(entries))]);
    } catch (error) {
      return new Map([[entriesFolder(folder), describeError(error)]]);
    }
  }
}

/** Tells each problem once, until it has gone or is another one. */
function createReporter(log: Logger): (problems: ReadonlyMap<string, string>) => void {
  let known: ReadonlyMap<string, string> = new Map();
  return (problems) => {
    for (const [entry, problem] of problems) {
      if (known.get(entry) !== problem) log.error({ entry, problem }, "entry is not served");
    }
    known = problems;
  };
}

function watchFolder(folder: string, changes: Wakeup, log: Logger): () => void {
  try {
    const watcher = watch(folder, () => changes.wake());
    watcher.on("error", (error) => log.warn({ error: describeError(error) }, "watching the entries failed"));
    return () => watcher.close();
  } catch (error) {
    log.warn({ error: describeError(error) }, "the entries cannot be watched, only read again and again");
    return () => {};
  }
}

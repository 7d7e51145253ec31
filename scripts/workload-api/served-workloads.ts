import type { WorkloadEntry } from "../../controller/backends/local/workload-entry.ts";
import { describeError } from "../../controller/platform/errors.ts";
import type { WorkloadSocket } from "./workload-socket.ts";

/** The workloads that are served, brought in line with the entries again and again. */
export type ServedWorkloads = {
  /** Opens, replaces and closes what has to be; returns the problems by the workload's name. */
  reconcile(entries: ReadonlyMap<string, WorkloadEntry>): Promise<ReadonlyMap<string, string>>;
};

type Served = { readonly entry: WorkloadEntry; readonly socket: WorkloadSocket };

/** Not for concurrent use: one `reconcile` after the other. */
export function createServedWorkloads(
  open: (name: string, entry: WorkloadEntry) => Promise<WorkloadSocket>,
): ServedWorkloads {
  const served = new Map<string, Served>();
  return {
    reconcile: async (entries) => {
      const outdated = [...served].filter(([name, { entry }]) => !isSame(entry, entries.get(name)));
      await Promise.all(
        outdated.map(async ([name, { socket }]) => {
          served.delete(name);
          await socket.close();
        }),
      );
      const problems = new Map<string, string>();
      const missing = [...entries].filter(([name]) => !served.has(name));
      await Promise.all(
        missing.map(async ([name, entry]) => {
          try {
            served.set(name, { entry, socket: await open(name, entry) });
          } catch (error) {
            problems.set(name, describeError(error));
          }
        }),
      );
      return problems;
    },
  };
}

function isSame(a: WorkloadEntry, b: WorkloadEntry | undefined): boolean {
  return b !== undefined && a.spiffeId === b.spiffeId && a.uid === b.uid;
}

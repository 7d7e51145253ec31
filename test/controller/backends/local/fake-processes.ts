import { type ExecutorFile, newExecutorFile } from "../../../../controller/backends/local/executor-file.ts";
import { executorVariable } from "../../../../controller/backends/local/executor-processes.ts";
import type { ProcessInfo, ProcessTable } from "../../../../controller/backends/local/process-table.ts";
import { anExecutorMetadata, testStart } from "../../../support/builders.ts";

export type FakeProcess = ProcessInfo & {
  readonly uids: readonly number[];
  /** Undefined: it is about to become another program. */
  readonly environment: readonly string[] | undefined;
};

/** Process 100, started at tick 5000, a session leader with uid 0. */
export function aProcess(overrides: Partial<FakeProcess> = {}): FakeProcess {
  const { pid = 100 } = overrides;
  return {
    pid,
    group: pid,
    session: pid,
    startTime: 5000,
    zombie: false,
    uids: [0],
    environment: [],
    ...overrides,
  };
}

export type FakeProcessTable = ProcessTable & {
  processes: FakeProcess[];
  readonly signals: (readonly [number, string])[];
  /** What a signal does; default: SIGKILL ends the process that it is for, others do nothing. */
  onSignal: (target: number, name: string) => void;
};

export function createFakeProcessTable(...processes: FakeProcess[]): FakeProcessTable {
  const table: FakeProcessTable = {
    bootId: "this-boot",
    processes,
    signals: [],
    onSignal: (target, name) => {
      if (name === "SIGKILL") table.processes = table.processes.filter(({ pid }) => pid !== target);
    },
    living: () => table.processes.filter(({ zombie }) => !zombie),
    find: (pid) => table.processes.find((other) => other.pid === pid),
    environment: (pid) => {
      const found = table.processes.find((other) => other.pid === pid);
      return found === undefined ? [] : found.environment;
    },
    signal: (target, name) => {
      table.signals.push([target, name]);
      table.onSignal(target, name);
    },
  };
  return table;
}

export const executor = "gitea-task-42-1-00000000";
export const folder = `/state/executors/${executor}`;
export const marked = [`${executorVariable}=${folder}`];

/** The file of an executor that runs as process 100, started at tick 5000, under our own uid. */
export function aFile(overrides: Partial<ExecutorFile> = {}): ExecutorFile {
  return {
    ...newExecutorFile(anExecutorMetadata(), {
      createdAt: testStart,
      deadlineAt: testStart + 3_600_000,
      uid: null,
    }),
    process: { pid: 100, startTime: 5000, bootId: "this-boot" },
    ...overrides,
  };
}

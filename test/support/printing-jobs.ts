import assert from "node:assert/strict";
import { chmod, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import { eventually } from "./eventually.ts";
import { type ExecutorSeen, seeExecutors } from "./executors.ts";
import type { PlatformUnderTest } from "./platform.ts";
import type { PushedRun } from "./push-run.ts";

export type PrintingJobsInit = { readonly count?: number; readonly backend?: "pod" | "vm" };

/** Jobs that run until a test lets them end, and that show each report that was lost or came twice. */
export type PrintingJobs = {
  /** Pushes this many and waits until all have been claimed. They end when the gate of this name is opened. */
  readonly running: (name: string, jobs?: PrintingJobsInit) => Promise<PushedRun>;
  /** A workflow of them. */
  readonly workflow: (gate: string, jobs?: PrintingJobsInit) => string;
  readonly claimed: (count: number) => Promise<void>;
  readonly openGate: (name: string) => Promise<void>;
  /** The path of a gate, for workflows of a test's own. */
  readonly gate: (name: string) => string;
  readonly executors: () => Promise<readonly ExecutorSeen[]>;
  /** Each executor that is there gets this many further SVIDs, counted from when it was seen so, or from now. */
  readonly renewed: (times: number, since?: readonly ExecutorSeen[]) => Promise<void>;
  /** All of its jobs succeed, with every line in Gitea once and in order, and no executor is left. */
  readonly assertComplete: (run: PushedRun) => Promise<void>;
};

/** Registers hooks for the gates. */
export function usePrintingJobs(real: PlatformUnderTest): PrintingJobs {
  let gates = "";
  before(async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
  });
  after(() => rm(gates, { recursive: true, force: true }));

  const gate = (name: string) => path.join(gates, name);
  const executors = () => seeExecutors(path.join(real.platform.folder, "state"));
  const workflow: PrintingJobs["workflow"] = (name, { count = 1, backend = "pod" } = {}) => `
on: push
jobs:
${Array.from(
  { length: count },
  (_, index) => `
  print-${index}:
    runs-on: [self-hosted, ${backend}]
    steps:
      - run: |
          i=0
          while i=$((i + 1)); echo "line $i"; [ ! -e ${gate(name)} ]; do sleep 0.05; done
          echo "lines $i"
`,
).join("")}`;
  const claimed = (count: number) =>
    eventually(`${count} executors have claimed`, async () => {
      const seen = await executors();
      return seen.filter(({ lines }) => lines.some(({ msg }) => msg === "task claimed")).length === count;
    });
  const received = ({ lines }: ExecutorSeen) =>
    lines.filter(({ msg }) => msg === "x509-svid received").length;
  return {
    gate,
    executors,
    workflow,
    claimed,
    running: async (name, jobs = {}) => {
      const run = await real.push(name, workflow(name, jobs));
      await claimed(jobs.count ?? 1);
      return run;
    },
    openGate: (name) => writeFile(gate(name), ""),
    renewed: async (times, since) => {
      const earlier = new Map((since ?? (await executors())).map((seen) => [seen.name, received(seen)]));
      await eventually(`each executor gets ${times} more SVIDs`, async () =>
        (await executors()).every((seen) => received(seen) >= (earlier.get(seen.name) ?? 0) + times),
      );
    },
    assertComplete: async (run) => {
      for (const job of await run.jobs()) {
        const lines = (await run.log(job)).filter((line) => /^lines? \d+$/.test(line));
        assert.equal(job.conclusion, "success");
        const count = lines.length - 1;
        assert.ok(count > 0);
        const expected = [
          ...Array.from({ length: count }, (_, index) => `line ${index + 1}`),
          `lines ${count}`,
        ];
        assert.deepEqual(lines, expected);
      }
      const folder = path.join(real.platform.folder, "state/executors");
      await eventually("no executor is left", async () => (await readdir(folder)).length === 0);
    },
  };
}

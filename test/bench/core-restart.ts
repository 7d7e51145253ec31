import { create } from "@bufbuild/protobuf";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { executorEnvironment } from "../../controller/assignment/executor-environment.ts";
import { currentAttempt } from "../../controller/assignment/record.ts";
import { defaultTimes } from "../../controller/assignment/times.ts";
import { createCore } from "../../controller/core.ts";
import type { CorePorts } from "../../controller/core-ports.ts";
import { createTroubleBoard } from "../../controller/health/troubles.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createLogger } from "../../controller/platform/logger.ts";
import { connectNats } from "../../controller/platform/nats-connection.ts";
import { runTasks } from "../../controller/platform/task-group.ts";
import { compressTask, decompressTask } from "../../controller/protocol/compressed-task.ts";
import {
  FetchTaskResponseSchema,
  UpdateLogResponseSchema,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeBackend } from "../fakes/fake-backend.ts";
import { createFakeReportStore } from "../fakes/fake-report-store.ts";
import { coreSettings, executorOf, readAnyTask, untilAborted } from "../support/core-under-test.ts";
import { openStores } from "./stored-world.ts";

/** What a core that starts on a stored world tells its parent. */
export type Restarted = {
  /** From the process's start until all modules were loaded and NATS was connected. */
  readonly loadedMs: number;
  /** From createCore on. */
  readonly recoveredMs: number;
  readonly answeredMs: number;
  /** What the core holds beside what was there before it: heap and buffers, in bytes. */
  readonly bytes: number;
  readonly phases: Readonly<Record<string, number>>;
};

// A process of its own: a controller that starts has nothing compiled and nothing cached.
const [url = "", passwordFile = "", stream = "", settleMs = "0"] = process.argv.slice(2);
const never = new AbortController().signal;
const clock = systemClock;
const log = createLogger("error");
const password = await readFile(passwordFile, "utf8");
const link = await connectNats({ url, user: "ci", password, clock, log }, never);
const loadedMs = performance.now();
const { queue, records } = openStores(link, stream);
const backend = createFakeBackend({ kind: "pod", clock });
const running = await startExecutors();
const gitea: CorePorts["gitea"] = {
  declare: async () => undefined,
  fetchTask: async () => create(FetchTaskResponseSchema, { tasksVersion: 1n }),
  updateTask: async ({ state }) => create(UpdateTaskResponseSchema, { state: { id: state?.id ?? 0n } }),
  updateLog: async ({ index = 0n, rows = [] }) =>
    create(UpdateLogResponseSchema, { ackIndex: index + BigInt(rows.length) }),
};
const before = held();

const begun = performance.now();
const core = createCore(
  { ...coreSettings, times: defaultTimes },
  {
    gitea,
    queue,
    records,
    reports: { ...createFakeReportStore(), sweep: async () => 0 },
    events: { publish: () => undefined },
    backends: [
      { backend, capacity: running.length, backlog: 1, timeoutMs: 3 * 3_600_000, run: untilAborted },
    ],
    read: readAnyTask,
    compress: compressTask,
    decompress: decompressTask,
    newNonce: () => randomBytes(16).toString("hex"),
    countRefusal: () => undefined,
    troubles: createTroubleBoard(clock),
    clock,
    random: Math.random,
    log,
  },
);
await core.recover(never);
const recoveredMs = performance.now() - begun;
const last = running.at(-1);
if (last === undefined) throw new Error("no executor runs");
await executorOf(core, last).updateTask({
  state: { id: last.assignment.taskId, steps: [{ id: 0n, startedAt: { seconds: 1_767_225_600n } }] },
});
const answeredMs = performance.now() - begun;

const stopping = new AbortController();
const tasks = Number(settleMs) > 0 ? [...core.leaderTasks, ...core.relayTasks] : [];
const working = runTasks(tasks, stopping.signal);
await clock.sleep(Number(settleMs), never);
const bytes = held() - before;
const phases = core.figures.phases();
process.send?.({ loadedMs, recoveredMs, answeredMs, bytes, phases } satisfies Restarted);
stopping.abort(new Error("the bench is over"));
await working;
await link.close();
process.disconnect();

/** The executors of all claimed records, alive as if they had gone on without a controller. */
async function startExecutors() {
  const claimed = (await records.list(never)).records.filter(({ record }) => record.phase.name === "claimed");
  const found = [];
  for (const { record } of claimed) {
    const { assignment } = record;
    const attempt = currentAttempt(record);
    if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
    const metadata = { owner: coreSettings.owner, assignment, attempt, terminal: false };
    const deadlineAt = record.fetchedAt + 3 * 3_600_000;
    const environment = executorEnvironment(assignment, "no capability", coreSettings.facade);
    await backend.create({ metadata, environment, deadlineAt }, never);
    found.push({ assignment, attempt, peer: assignment.spiffeId });
  }
  return found;
}

function held(): number {
  for (let round = 0; round < 4; round++) globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

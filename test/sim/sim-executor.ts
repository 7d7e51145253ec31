import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  LogRowSchema,
  Result,
  StepStateSchema,
  TaskStateSchema,
  UpdateLogRequestSchema,
  UpdateTaskRequestSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { ExecutorRequest } from "../../controller/backends/backend.ts";
import { claimTask } from "../../controller/bootstrap/claim.ts";
import { deliverResult } from "../../controller/bootstrap/deliver-result.ts";
import { withDeadline } from "../../controller/bootstrap/deadline.ts";
import { createFacadeCalls } from "../../controller/bootstrap/facade-calls.ts";
import { fetchTask } from "../../controller/bootstrap/fetch-task.ts";
import { createRelay, type Relay } from "../../controller/bootstrap/relay.ts";
import type { StateReport } from "../../controller/bootstrap/state-spool.ts";
import type { Times } from "../../controller/bootstrap/times.ts";
import type { Clock } from "../../controller/platform/clock.ts";
import type { Logger } from "../../controller/platform/logger.ts";
import type { SimFacade } from "./sim-facade.ts";
import type { SimProcess } from "./sim-process.ts";
import { scale } from "./scale.ts";

/** What a job does: steps of some milliseconds, each with rows before it ends. */
export type SimJob = {
  readonly steps: readonly { readonly ms: number; readonly rows: number }[];
  /** What still runs after a cancel. */
  readonly postMs: number;
};

export type SimExecutorOptions = {
  readonly process: SimProcess;
  readonly facade: SimFacade;
  readonly request: ExecutorRequest;
  readonly job: SimJob;
  readonly instance: string;
  /** Until the identity is there. */
  readonly identityMs: number;
  readonly times: Times;
  readonly log: Logger;
  /** From the last word to the end of the process. */
  readonly exitMs: number;
  /** The job's first step begins: what may happen only once. */
  readonly onRun: () => void;
  /** The facade has taken this result. */
  readonly onDelivered: (result: Result) => void;
};

/** The bootstrap in an executor, with a played gitea-runner in it. Resolves to how it ended. */
export async function runSimExecutor(options: SimExecutorOptions): Promise<string> {
  const { process, facade, request, times, log } = options;
  const { clock } = process;
  const { environment, metadata } = request;
  const never = new AbortController().signal;
  const client = facade.clientFor(process, {
    spiffeId: environment.CI_SPIFFE_ID,
    assignmentId: environment.CI_ASSIGNMENT_ID,
    capability: environment.CI_RUNNER_CAPABILITY,
    instance: options.instance,
  });
  const { taskId } = metadata.assignment;
  const calls = createFacadeCalls({ client, redial: () => undefined }, clock, log);
  try {
    const claim = await withDeadline(
      clock,
      times.start,
      async (signal) => {
        await clock.sleep(options.identityMs, signal);
        await fetchTask(calls, taskId, times, signal);
        return claimTask(calls, taskId, times, signal);
      },
      never,
    );
    const relay = createRelay({
      calls,
      clock,
      times,
      log,
      taskId,
      logRows: claim.logRows,
      ended: claim.result,
      stop: never,
    });
    const sending = relay.run(never);
    if (claim.result === Result.UNSPECIFIED) {
      options.onRun();
      await playRunner(relay, taskId, options.job, clock);
    }
    relay.close(options.job.steps.length, "gitea-runner ended without a result.");
    const result = await deliverResult({ relay, clock, times, log }, sending);
    options.onDelivered(result);
    await clock.sleep(options.exitMs, never);
    return `exit code 0, result ${result}`;
  } catch (error) {
    return `exit code 1: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** How long gitea-runner tries to say how its job ended. */
const lastWordsMs = 30_000 / scale;

/** What gitea-runner tells of a job: rows and steps as they come, all rows at the end, then the result. */
async function playRunner(relay: Relay, taskId: bigint, job: SimJob, clock: Clock): Promise<void> {
  const never = new AbortController().signal;
  const rows: string[] = [];
  let acknowledged = 0n;
  const startedAt = timestampFromMs(clock.now());
  const steps = job.steps.map((_, id) => create(StepStateSchema, { id: BigInt(id) }));

  const sendRows = async (noMore: boolean) => {
    const fresh = rows.slice(Number(acknowledged));
    const request = create(UpdateLogRequestSchema, {
      taskId,
      index: acknowledged,
      rows: fresh.map((content) => create(LogRowSchema, { time: timestampFromMs(clock.now()), content })),
      noMore,
    });
    acknowledged = (await relay.updateLog(request)).ackIndex;
    if (acknowledged !== BigInt(rows.length)) throw new Error("rows are left");
  };
  const sendState = async (result: Result) => {
    const state = create(TaskStateSchema, { id: taskId, result, startedAt, steps });
    if (result !== Result.UNSPECIFIED) state.stoppedAt = timestampFromMs(clock.now());
    const outputs = result === Result.SUCCESS ? { answer: String(taskId) } : {};
    const request = Object.assign(create(UpdateTaskRequestSchema, { outputs }), { state });
    await relay.updateTask(request satisfies StateReport);
  };
  const quietly = (work: Promise<unknown>) => work.catch(() => undefined);

  let cancelled = false;
  for (const [index, { ms, rows: count }] of job.steps.entries()) {
    const step = steps[index];
    if (step === undefined || cancelled) break;
    step.startedAt = timestampFromMs(clock.now());
    step.logIndex = BigInt(rows.length);
    await quietly(sendState(Result.UNSPECIFIED));
    for (let row = 0; row < count && !cancelled; row++) {
      try {
        await clock.sleep(ms / count, relay.ended);
      } catch {
        cancelled = true;
      }
      rows.push(`row ${rows.length} of task ${taskId}`);
      step.logLength = BigInt(rows.length) - step.logIndex;
      await quietly(sendRows(false));
    }
    step.result = cancelled ? Result.CANCELLED : Result.SUCCESS;
    step.stoppedAt = timestampFromMs(clock.now());
    await quietly(sendState(Result.UNSPECIFIED));
  }
  if (cancelled) await clock.sleep(job.postMs, never);
  for (const step of steps) if (step.result === Result.UNSPECIFIED) step.result = Result.CANCELLED;

  const patience = clock.now() + lastWordsMs;
  const insist = async (work: () => Promise<void>) => {
    while (clock.now() < patience) {
      try {
        await work();
        return;
      } catch {
        await clock.sleep(1_000 / scale, never);
      }
    }
  };
  await insist(() => sendRows(true));
  await insist(() => sendState(cancelled ? Result.CANCELLED : Result.SUCCESS));
}

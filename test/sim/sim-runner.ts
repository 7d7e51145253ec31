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
import type { Relay } from "../../controller/bootstrap/relay.ts";
import type { Clock } from "../../controller/platform/clock.ts";

/** What a job does: steps that take some time, with rows spread over it. */
export type SimJob = {
  readonly steps: readonly { readonly ms: number; readonly rows: number }[];
  /** What still runs after a cancel. */
  readonly postMs: number;
};

export type SimRunnerOptions = {
  readonly relay: Pick<Relay, "updateTask" | "updateLog">;
  readonly taskId: bigint;
  readonly job: SimJob;
  readonly clock: Clock;
  /** Aborted when it is told to end at once. */
  readonly stop: AbortSignal;
  /** It has heard that its job is to end. */
  readonly onCancelled: () => void;
};

/** A job's rows say whose they are, and in which order they belong. */
export function isRowOfJob(content: string): boolean {
  return /^row \d+ of task \d+$/.test(content);
}

/** It reports at least this often, and hears of a cancel in the answer only. */
const reportMs = 10_000;
/** How long it tries to give its last rows, and then its result, and how often. */
const lastWordsMs = 30_000;
const retryMs = 1_000;

/**
 * gitea-runner as the bootstrap sees it: rows and steps as they come, all rows at the end, then the result. Rejects
 * when it is stopped.
 */
export async function playRunner(options: SimRunnerOptions): Promise<void> {
  const { relay, taskId, job, clock, stop, onCancelled } = options;
  const rows: string[] = [];
  let acknowledged = 0n;
  const cancel = { told: false };
  const startedAt = timestampFromMs(clock.now());
  const steps = job.steps.map((_, id) => create(StepStateSchema, { id: BigInt(id) }));

  const sendRows = async (noMore: boolean) => {
    const fresh = rows.slice(Number(acknowledged));
    const time = timestampFromMs(clock.now());
    const request = create(UpdateLogRequestSchema, {
      taskId,
      index: acknowledged,
      rows: fresh.map((content) => create(LogRowSchema, { time, content })),
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
    const answer = await relay.updateTask(request);
    if (result !== Result.UNSPECIFIED || cancel.told) return;
    cancel.told = (answer.state?.result ?? Result.UNSPECIFIED) !== Result.UNSPECIFIED;
    if (cancel.told) onCancelled();
  };
  const report = () => sendState(Result.UNSPECIFIED).catch(() => undefined);

  const work = async (ms: number) => {
    for (let left = ms; left > 0 && !cancel.told; left -= reportMs) {
      await clock.sleep(Math.min(left, reportMs), stop);
      if (left > reportMs) await report();
    }
  };

  for (const [index, { ms, rows: count }] of job.steps.entries()) {
    const step = steps[index];
    if (step === undefined || cancel.told) break;
    step.startedAt = timestampFromMs(clock.now());
    step.logIndex = BigInt(rows.length);
    await report();
    for (let row = 0; row < count && !cancel.told; row++) {
      await work(ms / count);
      rows.push(`row ${rows.length} of task ${taskId}`);
      step.logLength = BigInt(rows.length) - step.logIndex;
      await sendRows(false).catch(() => undefined);
    }
    step.result = cancel.told ? Result.CANCELLED : Result.SUCCESS;
    step.stoppedAt = timestampFromMs(clock.now());
    await report();
  }
  if (cancel.told) await clock.sleep(job.postMs, stop);
  for (const step of steps) if (step.result === Result.UNSPECIFIED) step.result = Result.CANCELLED;

  const insist = async (word: () => Promise<void>) => {
    for (const until = clock.now() + lastWordsMs; clock.now() < until; await clock.sleep(retryMs, stop)) {
      try {
        await word();
        return;
      } catch {
        // It goes on as long as its patience lasts.
      }
    }
  };
  await insist(() => sendRows(true));
  await insist(() => sendState(cancel.told ? Result.CANCELLED : Result.SUCCESS));
}

import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  Result,
  UpdateLogRequestSchema,
  UpdateTaskRequestSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "./deadline.ts";
import { closedState } from "./final-state.ts";
import type { StateReport } from "./progress.ts";
import type { Relay } from "./relay.ts";
import type { Times } from "./times.ts";
import { untilAnswered } from "./until-answered.ts";

export type DeliveryOptions = {
  readonly relay: Relay;
  readonly clock: Clock;
  readonly times: Times;
  readonly log: Logger;
  /** How many steps the job has. */
  readonly steps: number;
  /** For the person who pushed, if there is no result from gitea-runner: why. */
  readonly reason: string;
};

/**
 * Makes sure that the job has a result at the facade: gitea-runner's, or one made from the steps that it
 * reported. Resolves with the result that counts; rejects with the facade's refusal or with DeadlineError.
 */
export async function deliverResult(options: DeliveryOptions): Promise<Result> {
  const { relay, clock, times } = options;
  const deliver = (signal: AbortSignal) => deliverFinal(options, signal);
  if (relay.progress().final.kind !== "delivered")
    await withDeadline(clock, times.deliver, deliver, relay.refused);
  relay.refused.throwIfAborted();
  const { final } = relay.progress();
  if (final.kind !== "delivered") throw new Error("the facade took no result");
  return final.result;
}

async function deliverFinal(options: DeliveryOptions, signal: AbortSignal): Promise<void> {
  const { relay, times } = options;
  const { final } = relay.progress();
  if (final.kind === "none") await explain(options, signal);
  const report = final.kind === "seen" ? final.report : madeReport(options);
  const repetition = { ...options, what: "UpdateTask", every: times.retryEvery };
  await untilAnswered(repetition, () => relay.updateTask(report), signal);
}

/**
 * The row is worth some tries; the result does not wait longer for it. Where it belongs is asked for: gitea-runner may
 * have died while rows were on their way, and a row that stands before them would be passed over.
 */
async function explain(options: DeliveryOptions, signal: AbortSignal): Promise<void> {
  const { relay, clock, times, log } = options;
  const row = { time: timestampFromMs(clock.now()), content: options.reason };
  const repetition = { clock, log, what: "UpdateLog", every: times.retryEvery };
  const send = async (inner: AbortSignal) => {
    const index = await untilAnswered(repetition, () => relay.storedRows(), inner);
    const taskId = relay.progress().state.id;
    const request = create(UpdateLogRequestSchema, { taskId, index, rows: [row], noMore: true });
    await untilAnswered(repetition, () => relay.updateLog(request), inner);
  };
  try {
    await withDeadline(clock, times.lastRow, send, signal);
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ error: describeError(error) }, "log row about the missing result not taken");
  }
}

/** A failure, unless Gitea has ended the job already: a cancel stays one. */
function madeReport({ relay, clock, steps }: DeliveryOptions): StateReport {
  const { state, ended } = relay.progress();
  const result = ended === Result.UNSPECIFIED ? Result.FAILURE : ended;
  const request = create(UpdateTaskRequestSchema);
  return Object.assign(request, { state: closedState(state, steps, result, clock.now()) });
}

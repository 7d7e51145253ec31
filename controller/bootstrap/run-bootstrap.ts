import type { SecureContext } from "node:tls";
import { Result, type Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { both } from "../platform/both.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { describeEnd } from "./child-process.ts";
import { claimTask } from "./claim.ts";
import { withDeadline } from "./deadline.ts";
import { deliverResult } from "./deliver-result.ts";
import type { FacadeCalls } from "./facade-calls.ts";
import { fetchTask } from "./fetch-task.ts";
import { runJobStarted } from "./job-started.ts";
import { createLoopbackProxy } from "./loopback-proxy.ts";
import { serverOf } from "./proxy-target.ts";
import { createRelay, type Relay } from "./relay.ts";
import { runGiteaRunner, type RunnerProgram } from "./run-gitea-runner.ts";
import { jobOutline, runnerLabels } from "./runner-file.ts";
import { createRunnerService } from "./runner-service.ts";
import type { Times } from "./times.ts";
import { type ServerCapabilities, waitForFacade } from "./wait-for-facade.ts";

export type BootstrapOptions = {
  readonly calls: FacadeCalls;
  readonly taskId: bigint;
  /** How gitea-runner introduces itself in the job's log. */
  readonly name: string;
  readonly program: RunnerProgram;
  /** Which authorities are trusted for the task's Gitea. */
  readonly secureContext: SecureContext;
  readonly clock: Clock;
  readonly times: Times;
  readonly log: Logger;
};

/**
 * The life of an executor, from the first probe of the facade to the delivered result, which it resolves
 * with. Rejects when it did not get that far: nothing was claimed, or the facade refused or was away for too
 * long. `stop` asks for an end: the runner then reports by itself.
 */
export async function runBootstrap(options: BootstrapOptions, stop: AbortSignal): Promise<Result> {
  const { calls, clock, times, log, taskId } = options;
  const { task, capabilities } = await withDeadline(
    clock,
    times.start,
    (signal) => started(options, signal),
    stop,
  );
  const claiming = (signal: AbortSignal) => claimTask(calls, taskId, times, signal);
  const claim = await withDeadline(clock, times.claim, claiming, stop);
  log.info({ log_rows: String(claim.logRows) }, "task claimed");
  const relay = createRelay({
    calls,
    clock,
    taskId,
    times,
    log,
    logRows: claim.logRows,
    ended: claim.result,
    stop,
  });
  const giveUp = new AbortController();
  const sending = relay.run(giveUp.signal);
  try {
    const job = jobOutline(task.workflowPayload ?? new Uint8Array());
    const reason =
      claim.result === Result.UNSPECIFIED
        ? await runJob(options, { task, relay, capabilities, labels: runnerLabels(job.runsOn) }, stop)
        : "The job had ended before its runner began.";
    relay.close(job.steps, reason);
    return await deliverResult({ relay, clock, times, log }, sending);
  } finally {
    giveUp.abort();
    await sending;
  }
}

type Given = { readonly task: Task; readonly capabilities: ServerCapabilities };

/**
 * All that may be given up, so that another attempt is made. What the facade has for us and what the job needs here come at
 * once: a Docker takes a second to start.
 */
async function started(options: BootstrapOptions, stop: AbortSignal): Promise<Given> {
  const { calls, clock, times, log, taskId, program } = options;
  const given = async (signal: AbortSignal): Promise<Given> => {
    const capabilities = await waitForFacade(calls, times, signal);
    log.info({}, "facade reached");
    return { capabilities, task: await fetchTask(calls, taskId, times, signal) };
  };
  const { environment } = program;
  const ready = (signal: AbortSignal) =>
    runJobStarted({ environment, clock, log, deadline: times.jobStarted }, signal);
  const [got] = await both(given, ready, stop);
  return got;
}

type Job = {
  readonly task: Task;
  readonly relay: Relay;
  readonly capabilities: ServerCapabilities;
  readonly labels: readonly string[];
};

/** Runs the job to its end; what it resolves with is shown to people if gitea-runner has reported no result. */
async function runJob(options: BootstrapOptions, job: Job, stop: AbortSignal): Promise<string> {
  const { clock, times, log, name, program, secureContext } = options;
  const { task, relay, capabilities, labels } = job;
  const proxy = createLoopbackProxy({ server: serverOf(task.context), secureContext, log });
  const service = createRunnerService({ task, relay, name, capabilities });
  const end = await runGiteaRunner(
    {
      program,
      name,
      labels,
      service,
      proxy,
      clock,
      stopGrace: times.stopGrace,
      orphanGrace: times.orphanGrace,
    },
    relay.ended,
    AbortSignal.any([stop, relay.refused]),
  );
  log.info({ end: describeEnd(end) }, "gitea-runner is over");
  return `gitea-runner ${describeEnd(end)}${end.kind === "not-started" ? "" : " without reporting a result"}.`;
}

import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { ExecutorRequest } from "../../controller/backends/backend.ts";
import { claimTask } from "../../controller/bootstrap/claim.ts";
import { withDeadline } from "../../controller/bootstrap/deadline.ts";
import { deliverResult } from "../../controller/bootstrap/deliver-result.ts";
import { createFacadeCalls } from "../../controller/bootstrap/facade-calls.ts";
import type { FacadeClient } from "../../controller/bootstrap/facade-client.ts";
import { fetchTask } from "../../controller/bootstrap/fetch-task.ts";
import { createRelay } from "../../controller/bootstrap/relay.ts";
import { defaultTimes as times } from "../../controller/bootstrap/times.ts";
import { waitForFacade } from "../../controller/bootstrap/wait-for-facade.ts";
import type { Logger } from "../../controller/platform/logger.ts";
import type { SimFacade } from "./sim-facade.ts";
import type { SimProcess } from "./sim-process.ts";
import { playRunner, type SimJob } from "./sim-runner.ts";

export type SimExecutorOptions = {
  readonly process: SimProcess;
  readonly facade: SimFacade;
  readonly request: ExecutorRequest;
  readonly job: SimJob;
  /** Another one for each start of the program. */
  readonly instance: string;
  /** Until the identity is there. */
  readonly identityMs: number;
  /** What the image's `gitea-job-started` takes. */
  readonly preparesMs: number;
  /** From the last word to the end of the process. */
  readonly exitMs: number;
  readonly log: Logger;
  /** It has the answer to its claim; `ended`: of a job that is over already. */
  readonly onClaimed: (ended: boolean) => void;
  /** The job's first step begins: what may happen only once. */
  readonly onRun: () => void;
  /** gitea-runner has heard that its job is to end. */
  readonly onCancelled: () => void;
  /** This is what counts as the job's result, the executor is told. */
  readonly onDelivered: (result: Result) => void;
};

/** The bootstrap's own parts, put together as run-bootstrap.ts does, with a played gitea-runner. */
export async function runSimExecutor(options: SimExecutorOptions): Promise<string> {
  const { process, facade, request, job, log } = options;
  const { clock } = process;
  const { environment, metadata } = request;
  const { taskId } = metadata.assignment;
  const never = new AbortController().signal;
  const client = facade.clientFor(process, {
    spiffeId: environment.CI_SPIFFE_ID,
    assignmentId: environment.CI_ASSIGNMENT_ID,
    capability: environment.CI_RUNNER_CAPABILITY,
    instance: options.instance,
  });
  const connection = { client: client as FacadeClient, redial: () => undefined };
  const calls = createFacadeCalls(connection, clock, log);
  const claimed = async (signal: AbortSignal) => {
    await clock.sleep(options.identityMs, signal);
    await waitForFacade(calls, times, signal);
    await fetchTask(calls, taskId, times, signal);
    await clock.sleep(options.preparesMs, signal);
    return claimTask(calls, taskId, times, signal);
  };
  const giveUp = new AbortController();
  try {
    const claim = await withDeadline(clock, times.start, claimed, never);
    const { logRows, result: ended } = claim;
    options.onClaimed(ended !== Result.UNSPECIFIED);
    const relay = createRelay({ calls, clock, times, log, taskId, logRows, ended, stop: never });
    const sending = relay.run(giveUp.signal);
    if (ended === Result.UNSPECIFIED) {
      options.onRun();
      const { refused: stop } = relay;
      const running = playRunner({ relay, taskId, job, clock, stop, onCancelled: options.onCancelled });
      await running.catch((error: unknown) => log.info({ error }, "gitea-runner is stopped"));
    }
    relay.close(job.steps.length, "gitea-runner ended without a result.");
    const result = await deliverResult({ relay, clock, times, log }, sending);
    options.onDelivered(result);
    await clock.sleep(options.exitMs, never);
    return `exit code 0, result ${result}`;
  } catch (error) {
    return `exit code 1: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    giveUp.abort();
  }
}

import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { describeEnd, runCommand } from "./child-process.ts";
import { DeadlineError, withDeadline } from "./deadline.ts";

const program = "gitea-job-started";
const killAfterMs = 5_000;

export type JobStartedOptions = {
  readonly environment: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly deadline: number;
  readonly log: Logger;
};

/**
 * Makes the job's identity and Docker ready, where the image has the program for it. It runs before the claim:
 * when it fails, another attempt may help. Rejects then, or with the reason of the signal.
 */
export async function runJobStarted(options: JobStartedOptions, signal: AbortSignal): Promise<void> {
  const { environment, clock, deadline, log } = options;
  const file = await onPath(program, environment["PATH"] ?? "");
  if (file === undefined) return log.info({}, "image has no gitea-job-started");
  const run = async (inner: AbortSignal) => {
    const end = await runCommand({ program: file, args: [], environment }, clock, killAfterMs, inner);
    inner.throwIfAborted();
    if (end.kind !== "exited" || end.code !== 0) throw new Error(`${program} ${describeEnd(end)}`);
  };
  const begun = clock.now();
  try {
    await withDeadline(clock, deadline, run, signal);
  } catch (error) {
    if (!(error instanceof DeadlineError) || signal.aborted) throw error;
    throw new Error(`${program} did not end`, { cause: error });
  }
  log.info({ ms: clock.now() - begun }, "job is made ready");
}

async function onPath(name: string, folders: string): Promise<string | undefined> {
  for (const folder of folders.split(delimiter).filter(isAbsolute)) {
    const file = join(folder, name);
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  return undefined;
}

import { writeFile } from "node:fs/promises";
import type { ServiceImpl } from "@connectrpc/connect";
import type { RequestListener } from "node:http";
import type { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { type CommandEnd, runCommand } from "./child-process.ts";
import { endOrphans, signalProcess } from "./end-orphans.ts";
import { startLoopbackServer } from "./loopback-server.ts";
import { listProcesses } from "./process-list.ts";
import { runnerFile } from "./runner-file.ts";

/** How gitea-runner is started. */
export type RunnerProgram = {
  readonly binary: string;
  readonly configFile: string;
  /** Where the configuration tells it to look for its registration. */
  readonly registrationFile: string;
  /** Without the capability. */
  readonly environment: NodeJS.ProcessEnv;
};

export type GiteaRunnerOptions = {
  readonly program: RunnerProgram;
  readonly name: string;
  readonly labels: readonly string[];
  readonly service: ServiceImpl<typeof RunnerService>;
  readonly proxy: RequestListener;
  readonly clock: Clock;
  /** Milliseconds from SIGTERM to SIGKILL. */
  readonly stopGrace: number;
  /** The same for what a step has started, when the job is ended. */
  readonly orphanGrace: number;
};

/**
 * Runs the official gitea-runner for one job, with us in Gitea's place, and waits for its end. Never rejects:
 * after the claim whatever goes wrong must become the job's result. Its exit code says nothing about the job.
 * `ended`: it has been told that the job is over. `stop`: it is told by a signal.
 */
export async function runGiteaRunner(
  options: GiteaRunnerOptions,
  ended: AbortSignal,
  stop: AbortSignal,
): Promise<CommandEnd> {
  const { program, name, labels, clock } = options;
  const over = new AbortController();
  const windingUp = AbortSignal.any([ended, stop]);
  const endOrphansOf = (runner: number) => {
    const orphans = { list: listProcesses, signal: signalProcess, runner, clock, grace: options.orphanGrace };
    // Called before the answer that tells gitea-runner is on its way: it ends the step's shell at once.
    const begin = () => void endOrphans(orphans, over.signal);
    windingUp.addEventListener("abort", begin, { once: true, signal: over.signal });
  };
  try {
    await using server = await startLoopbackServer(options);
    const registration = runnerFile({ name, labels, address: server.origin });
    await writeFile(program.registrationFile, registration, { mode: 0o600 });
    const args = ["daemon", "--config", program.configFile, "--once"];
    const { binary, environment } = program;
    const command = { program: binary, args, environment, onStart: endOrphansOf };
    return await runCommand(command, clock, options.stopGrace, stop);
  } catch (error) {
    return { kind: "not-started", reason: describeError(error) };
  } finally {
    over.abort();
  }
}

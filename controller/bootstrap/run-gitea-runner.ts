import { writeFile } from "node:fs/promises";
import type { ServiceImpl } from "@connectrpc/connect";
import type { RequestListener } from "node:http";
import type { RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { type CommandEnd, runCommand } from "./child-process.ts";
import { startLoopbackServer } from "./loopback-server.ts";
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
};

/**
 * Runs the official gitea-runner for one job, with us in Gitea's place, and waits for its end. Never rejects:
 * after the claim whatever goes wrong must become the job's result. Its exit code says nothing about the job.
 */
export async function runGiteaRunner(options: GiteaRunnerOptions, stop: AbortSignal): Promise<CommandEnd> {
  const { program, name, labels, clock } = options;
  try {
    await using server = await startLoopbackServer(options);
    const registration = runnerFile({ name, labels, address: server.origin });
    await writeFile(program.registrationFile, registration, { mode: 0o600 });
    const args = ["daemon", "--config", program.configFile, "--once"];
    const command = { program: program.binary, args, environment: program.environment };
    return await runCommand(command, clock, options.stopGrace, stop);
  } catch (error) {
    return { kind: "not-started", reason: describeError(error) };
  }
}

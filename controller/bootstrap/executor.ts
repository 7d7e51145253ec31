import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, getCACertificates } from "node:tls";
import { type Result, ResultSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { exactly } from "../spiffe/authorize.ts";
import { createClientSessions } from "../spiffe/client-sessions.ts";
import type { SvidSource } from "../spiffe/x509-source.ts";
import { type BootstrapEnvironment, handedOnEnvironment } from "./environment.ts";
import { createFacadeCalls } from "./facade-calls.ts";
import { createFacadeConnection } from "./facade-client.ts";
import { runBootstrap } from "./run-bootstrap.ts";
import type { RunnerProgram } from "./run-gitea-runner.ts";
import { runnerFileName } from "./runner-file.ts";
import { defaultTimes } from "./times.ts";

export type ExecutorOptions = {
  readonly environment: BootstrapEnvironment;
  readonly program: RunnerProgram;
  readonly source: SvidSource;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Reaches the facade with the job's SVID and lives as `runBootstrap` says; resolves with the result's name. */
export async function runExecutor(options: ExecutorOptions, stop: AbortSignal): Promise<string | undefined> {
  const { environment, program, source, clock, log } = options;
  using sessions = createClientSessions({
    source,
    baseUrl: environment.facadeUrl,
    authorize: exactly(environment.facadeSpiffeId),
    clock,
    pingIntervalMs: 10_000,
    pingTimeoutMs: 5_000,
  });
  const { assignmentId, capability, taskId } = environment;
  const caller = { assignmentId, capability, instance: randomUUID() };
  const connection = createFacadeConnection(environment.facadeUrl, caller, {
    sessionManager: sessions,
    redial: () => sessions.redial(),
  });
  const calls = createFacadeCalls(connection, clock, log);
  const secureContext = createSecureContext({ ca: [...trustedAuthorities()] });
  const result: Result = await runBootstrap(
    { calls, taskId, name: assignmentId, program, secureContext, clock, times: defaultTimes, log },
    stop,
  );
  return ResultSchema.value[result]?.name;
}

/** Rejects, naming the configuration, where gitea-runner has none that can be read. */
export async function readProgram(environment: BootstrapEnvironment): Promise<RunnerProgram> {
  const configFile = environment.runnerConfigFile;
  try {
    return {
      binary: environment.runnerBinary,
      configFile,
      registrationFile: runnerFileName(await readFile(configFile, "utf8")),
      environment: handedOnEnvironment(process.env),
    };
  } catch (error) {
    throw new Error(`reading GITEA_RUNNER_CONFIG_FILE (${configFile})`, { cause: error });
  }
}

/** Also what the machine trusts: git and curl in the same executor do. */
function trustedAuthorities(): Set<string> {
  return new Set([...getCACertificates("default"), ...getCACertificates("system")]);
}

import { randomInt, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, getCACertificates } from "node:tls";
import { type Result, ResultSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import { type Clock, systemClock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { createLogger, type Logger } from "../platform/logger.ts";
import { exactly } from "../spiffe/authorize.ts";
import { createClientSessions } from "../spiffe/client-sessions.ts";
import { parseEndpoint } from "../spiffe/endpoint.ts";
import { createWorkloadClient } from "../spiffe/workload-client.ts";
import { openX509Source } from "../spiffe/x509-source.ts";
import { type BootstrapEnvironment, handedOnEnvironment, readEnvironment } from "./environment.ts";
import { createFacadeCalls } from "./facade-calls.ts";
import { createFacadeConnection } from "./facade-client.ts";
import { onlyOne } from "./only-one.ts";
import { runBootstrap } from "./run-bootstrap.ts";
import type { RunnerProgram } from "./run-gitea-runner.ts";
import { runnerFileName } from "./runner-file.ts";
import { defaultTimes } from "./times.ts";

/**
 * The program inside every executor. Exit code 0 says that the job's result was delivered, whatever it is; 1
 * that it never got that far, and one line on stderr says why.
 */
const logger = createLogger("info").child({ component: "bootstrap" });

const random = () => randomInt(2 ** 32) / 2 ** 32;

const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.on(signal, () => stop.abort(new Error(`stopped by ${signal}`)));

try {
  const result = await bootstrap(systemClock, logger, stop.signal);
  logger.info({ result: ResultSchema.value[result]?.name }, "result delivered");
  process.exit(0);
} catch (error) {
  logger.error({ error: describeError(error) }, "bootstrap stopped");
  process.exit(1);
}

async function bootstrap(clock: Clock, log: Logger, signal: AbortSignal): Promise<Result> {
  const environment = readEnvironment(process.env);
  const endpoint = parseEndpoint(environment.endpointSocket);
  const program = await readProgram(environment);
  await using lock = await onlyOne(environment.capability);
  if (lock === undefined) throw new Error("another process runs for this attempt already");

  using client = createWorkloadClient(endpoint);
  await using source = await openX509Source(
    { client, expectedId: environment.spiffeId, clock, random, log, readyTimeoutMs: defaultTimes.identity },
    signal,
  );
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
  const name = assignmentId;
  return await runBootstrap(
    { calls, taskId, name, program, secureContext, clock, times: defaultTimes, log },
    signal,
  );
}

async function readProgram(environment: BootstrapEnvironment): Promise<RunnerProgram> {
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

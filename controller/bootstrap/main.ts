import { randomInt } from "node:crypto";
import { both } from "../platform/both.ts";
import { type Clock, systemClock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { createLogger, type Logger } from "../platform/logger.ts";
import { parseEndpoint } from "../spiffe/endpoint.ts";
import { createWorkloadClient } from "../spiffe/workload-client.ts";
import { openX509Source } from "../spiffe/x509-source.ts";
import { type BootstrapEnvironment, readEnvironment } from "./environment.ts";
import { onlyOne } from "./only-one.ts";
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
  logger.info({ result }, "result delivered");
  process.exit(0);
} catch (error) {
  logger.error({ error: describeError(error) }, "bootstrap stopped");
  process.exit(1);
}

async function bootstrap(clock: Clock, log: Logger, signal: AbortSignal): Promise<string | undefined> {
  const environment = readEnvironment(process.env);
  const endpoint = parseEndpoint(environment.endpointSocket);
  await using lock = await onlyOne(environment.capability);
  if (lock === undefined) throw new Error("another process runs for this attempt already");

  await using identity = new AsyncDisposableStack();
  const client = identity.use(createWorkloadClient(endpoint));
  const readyTimeoutMs = defaultTimes.identity;
  const open = async (inner: AbortSignal) =>
    identity.use(
      await openX509Source(
        { client, expectedId: environment.spiffeId, clock, random, log, readyTimeoutMs },
        inner,
      ),
    );
  log.info({}, "x509-svid asked for");
  const [source, { runExecutor, program }] = await both(open, () => loadRest(environment), signal);
  return await runExecutor({ environment, program, source, clock, log }, signal);
}

/** Half of the modules are of no use before there is an SVID, and that takes as long as to load them, often longer. */
async function loadRest(environment: BootstrapEnvironment) {
  const { readProgram, runExecutor } = await import("./executor.ts");
  return { runExecutor, program: await readProgram(environment) };
}

import { readConfig } from "./config.ts";
import { runController } from "./controller.ts";
import { openBackends } from "./open-backends.ts";
import { openKubernetes } from "./open-kubernetes.ts";
import { systemRandom } from "./platform/backoff.ts";
import { systemClock, systemSteadyClock } from "./platform/clock.ts";
import { describeError } from "./platform/errors.ts";
import { createLogger } from "./platform/logger.ts";
import { isAbortOf } from "./platform/signal.ts";

const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const)
  process.once(name, () => {
    stop.abort(new Error(name));
  });

// The level is part of the configuration, whose mistakes are to be logged as well.
let log = createLogger("info");
/** What nobody caught ends the process like any other fault: with one line. */
process.on("uncaughtException", (error) => {
  log.error({ component: "main", error: describeError(error), stack: error.stack }, "runner stopped");
  process.exit(1);
});
// Node would write its warnings as they are, and stderr holds JSON lines only.
process.removeAllListeners("warning");
process.on("warning", ({ name, message }) => {
  log.warn({ component: "main", warning: name, error: message }, "node warns");
});
try {
  const config = readConfig(process.env);
  log = createLogger(config.logLevel);
  const world = { clock: systemClock, steady: systemSteadyClock, random: systemRandom };
  await runController(
    config,
    {
      ...world,
      log,
      openKubernetes: (signal) => openKubernetes(process.env, systemClock, signal),
      openBackends,
    },
    stop.signal,
  );
} catch (error) {
  if (!isAbortOf(stop.signal, error)) {
    log.error({ component: "main", error: describeError(error) }, "runner stopped");
    process.exitCode = 1;
  }
}
if (process.exitCode === undefined)
  log.info({ component: "main", reason: describeError(stop.signal.reason) }, "runner stopped cleanly");

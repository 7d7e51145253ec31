import { systemClock } from "../controller/platform/clock.ts";
import { exitCode, StoppedBySignal } from "./demo/exit-code.ts";
import { help, parseOptions, UsageError, type DemoOptions } from "./demo/options.ts";
import { runDemo } from "./demo/run-demo.ts";
import { createLiveScreen, createPlainScreen } from "./demo/screen.ts";
import { createReport } from "./peers/report.ts";

/** Ctrl-C reaches the whole group, and npm may pass it on once more: that is not a second one. */
const sameSignalMs = 700;

function optionsOrEnd(): DemoOptions | undefined {
  try {
    const options = parseOptions(process.argv.slice(2), process.env);
    if (options !== "help") return options;
    process.stdout.write(help);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`demo: ${error.message}; --help tells more\n`);
    process.exitCode = 2;
  }
  return undefined;
}

async function main(options: DemoOptions): Promise<void> {
  const stop = new AbortController();
  const hurry = new AbortController();
  let stoppedAt = 0;
  const end = (reason: unknown) => {
    const now = systemClock.now();
    if (!stop.signal.aborted) {
      stoppedAt = now;
      stop.abort(reason);
    } else if (now - stoppedAt > sameSignalMs) hurry.abort();
  };
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => {
      end(new StoppedBySignal(name));
    });
  // Whatever it is, what was started has to be ended.
  process.on("uncaughtException", (error) => {
    process.stderr.write(`demo: ${error.stack ?? error.message}\n`);
    end(error);
  });
  // Nobody reads any more, or the terminal is gone.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", end);

  const { stdout } = process;
  const live = stdout.isTTY && process.env["TERM"] !== "dumb";
  const colours = (process.env["NO_COLOR"] ?? "") === "";
  const screen = live
    ? createLiveScreen(stdout, { colours, clock: systemClock })
    : createPlainScreen((text) => stdout.write(text));
  process.on("exit", screen.close);
  const dependencies = { screen, report: createReport(), clock: systemClock, environment: process.env };
  const success = await runDemo(options, { ...dependencies, hurry: hurry.signal }, stop.signal);
  process.exitCode = exitCode(success, stop.signal.reason);
}

const options = optionsOrEnd();
if (options !== undefined) await main(options);

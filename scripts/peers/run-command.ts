import { createLastLines } from "./last-lines.ts";
import { signalGroup, spawnWatched } from "./process-group.ts";
import { within } from "./within.ts";

export type Command = {
  readonly program: string;
  readonly args: readonly string[];
  readonly folder?: string;
  readonly environment: NodeJS.ProcessEnv;
  /** Milliseconds until the command is ended and counts as failed. */
  readonly deadline: number;
  readonly uid?: number;
  readonly gid?: number;
  /** Hears every line of stderr as it comes. */
  readonly onLine?: (line: string) => void;
};

const graceMs = 5_000;

/**
 * Runs a program to its end and returns its stdout. Rejects with the last lines of its output when it fails, and with the signal's
 * reason when it is aborted, once the program and everything that it started have ended.
 */
export async function runCommand(command: Command, signal: AbortSignal): Promise<string> {
  const what = [command.program, ...command.args.slice(0, 2)].join(" ");
  return await within(command.deadline, what, (inner) => runUntilEnd(command, what, inner), signal);
}

async function runUntilEnd(command: Command, what: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const { child, endWatch } = spawnWatched(command);
  const output = createLastLines(20, command.onLine ?? (() => undefined));
  let stdout = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => output.add(chunk));

  const { promise: ended, resolve, reject } = Promise.withResolvers<string>();
  child.once("error", (error) => reject(new Error(`cannot run ${what}`, { cause: error })));
  child.once("close", (code, killedBy) => resolve(killedBy ?? `exit code ${String(code)}`));
  const { pid } = child;
  if (pid === undefined) {
    endWatch();
    return await ended;
  }
  let killer: NodeJS.Timeout | undefined;
  const abort = () => {
    signalGroup(pid, "SIGTERM");
    killer = setTimeout(() => signalGroup(pid, "SIGKILL"), graceMs);
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    const how = await ended;
    signal.throwIfAborted();
    if (how === "exit code 0") return stdout;
    throw new Error(`${what} failed with ${how}: ${output.text() || stdout.slice(-2_000)}`);
  } finally {
    signal.removeEventListener("abort", abort);
    clearTimeout(killer);
    signalGroup(pid, "SIGKILL");
    endWatch();
  }
}

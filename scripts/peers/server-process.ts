import { access, constants, open } from "node:fs/promises";
import { createLastLines } from "./last-lines.ts";
import { signalGroup, spawnWatched } from "./process-group.ts";
import { within } from "./within.ts";

export type ServerCommand = {
  /** What error messages call it. */
  readonly name: string;
  /** A path. */
  readonly program: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
  /** Its output is appended to this file. */
  readonly logFile: string;
  /** Hears each line of its output. */
  readonly onLine?: (line: string) => void;
  readonly uid?: number;
  readonly gid?: number;
};

/** A program that runs until it is stopped; it dies with this process at the latest. */
export type ServerProcess = {
  readonly pid: number;
  /** Resolves to how it ended ("exit code 1", "SIGKILL"); never rejects. */
  readonly exited: Promise<string>;
  /** Waits for a line of output that matches. Rejects with the last lines of the log when the program ends first. */
  line(pattern: RegExp, deadlineMs: number, signal: AbortSignal): Promise<RegExpExecArray>;
  /** Rejects with the last lines of the log as soon as the program has ended, and with the signal's reason when aborted. */
  failure(signal: AbortSignal): Promise<never>;
  /** Sends a signal to the program and all that it started; nothing happens after its end. */
  signal(name: NodeJS.Signals): void;
  /** SIGTERM, after `graceMs` SIGKILL; resolves when nothing of it is left. Stopping twice is no error. */
  stop(graceMs?: number): Promise<void>;
};

/** Starts a program in a process group of its own. Rejects when it cannot be started at all. */
export async function startServer(command: ServerCommand): Promise<ServerProcess> {
  const cannotStart = (cause: unknown) =>
    new Error(`cannot start ${command.name} (${command.program})`, { cause });
  await access(command.program, constants.X_OK).catch((cause: unknown) => {
    throw cannotStart(cause);
  });
  const log = (await open(command.logFile, "a", 0o600)).createWriteStream();
  const watchers = new Set<(line: string) => void>();
  const lines = createLastLines(30, (line) => {
    command.onLine?.(line);
    for (const watcher of watchers) watcher(line);
  });
  const { child, endWatch } = spawnWatched(command);
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      log.write(chunk);
      lines.add(chunk);
    });
  }
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (cause) => {
      log.end();
      endWatch();
      reject(cannotStart(cause));
    });
  });
  const pid = child.pid as number;

  let running = true;
  const signalAll = (name: NodeJS.Signals) => {
    if (running) signalGroup(pid, name);
  };
  const exited = new Promise<string>((resolve) => {
    // Grandchildren would hold the output open and outlive the server.
    child.once("exit", () => {
      signalAll("SIGKILL");
      running = false;
    });
    child.once("close", (code, killedBy) => {
      endWatch();
      log.end(() => resolve(killedBy ?? `exit code ${String(code)}`));
    });
  });
  const failure = async (signal: AbortSignal): Promise<never> => {
    const how = await unlessAborted(exited, signal);
    throw new Error(`${command.name} ended with ${how}; the end of its log:\n${lines.text()}`);
  };

  return {
    pid,
    exited,
    failure,
    line: async (pattern, deadlineMs, signal) => {
      const { promise: found, resolve } = Promise.withResolvers<RegExpExecArray>();
      const watcher = (line: string) => {
        const match = pattern.exec(line);
        if (match !== null) resolve(match);
      };
      for (const line of lines.text().split("\n")) watcher(line);
      watchers.add(watcher);
      const done = new AbortController();
      try {
        const wait = (inner: AbortSignal) =>
          Promise.race([found, failure(AbortSignal.any([inner, done.signal]))]);
        return await within(deadlineMs, `the start of ${command.name}`, wait, signal);
      } finally {
        watchers.delete(watcher);
        done.abort();
      }
    },
    signal: signalAll,
    stop: async (graceMs = 10_000) => {
      signalAll("SIGTERM");
      // One that a test paused hears the end only when it goes on.
      signalAll("SIGCONT");
      const killer = setTimeout(() => signalAll("SIGKILL"), graceMs);
      await exited;
      clearTimeout(killer);
    },
  };
}

/** The promise's result, or the signal's reason as a rejection, whichever comes first. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason as Error);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

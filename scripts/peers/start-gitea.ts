import { join } from "node:path";
import { systemClock } from "../../controller/platform/clock.ts";
import { freePort } from "./free-port.ts";
import type { GiteaSettings } from "./gitea-settings.ts";
import type { GiteaPeer } from "./peer.ts";
import type { PlacedGitea } from "./place-gitea.ts";
import { placeGitea, writeConfiguration } from "./place-gitea.ts";
import { prepareGitea } from "./prepare-gitea.ts";
import { runCommand } from "./run-command.ts";
import type { ServerProcess } from "./server-process.ts";
import { startServer } from "./server-process.ts";
import { within } from "./within.ts";

export type GiteaOptions = {
  /**
   * Keeps everything of the server; starting again in the same folder finds the repositories again. It is made readable by everybody
   * (the data in it is not), and its parents have to be when Gitea runs under a uid of its own.
   */
  readonly folder: string;
  /** Prepared here unless given. */
  readonly peer?: GiteaPeer;
  /** 127.0.0.1 unless given. */
  readonly address?: string;
  /** A free one unless given. */
  readonly port?: number;
  /** Keys of app.ini that replace or complete ours. */
  readonly settings?: GiteaSettings;
  /** Only for root; 60578 unless given, because Gitea refuses to run as root. Needs no entry in /etc/passwd. */
  readonly uid?: number;
};

/** A running Gitea. */
export type Gitea = AsyncDisposable & {
  /** Without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** Its output. */
  readonly logFile: string;
  readonly pid: number;
  /** Resolves to how it ended; never rejects. */
  readonly exited: Promise<string>;
  /** Runs `gitea <args>` with this server's configuration and user; returns its stdout. */
  command(args: readonly string[], signal: AbortSignal): Promise<string>;
  /** Sends it a signal, for tests of faults. */
  signal(name: NodeJS.Signals): void;
  /** Ends it; resolves when nothing of it is left. Stopping twice is no error. */
  stop(): Promise<void>;
};

const startDeadlineMs = 150_000;
const commandDeadlineMs = 150_000;
const portAttempts = 5;

/**
 * Starts Gitea, on 127.0.0.1 unless told otherwise, and waits until it answers. Rejects with the end of its log when it does not start. Aborting the signal
 * gives up the start; a server that runs is ended by `stop`.
 */
export async function startGitea(options: GiteaOptions, signal: AbortSignal): Promise<Gitea> {
  const peer = options.peer ?? (await prepareGitea({}, signal));
  const program = await placeGitea(peer, options.folder, options.uid);
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    try {
      return await startOnPort(program, { ...options, port }, signal);
    } catch (error) {
      const lost = options.port === undefined && /address already in use/.test(String(error));
      if (!lost || attempt === portAttempts) throw error;
    }
  }
}

async function startOnPort(
  program: PlacedGitea,
  options: GiteaOptions & { readonly port: number },
  signal: AbortSignal,
): Promise<Gitea> {
  const { binary, work, user } = program;
  const { address = "127.0.0.1", port } = options;
  const configuration = await writeConfiguration(program, { address, port }, options.settings ?? {});
  const environment = {
    PATH: process.env["PATH"],
    LANG: "C.UTF-8",
    USER: "gitea",
    HOME: work,
    GITEA_WORK_DIR: work,
  };
  const command = async (args: readonly string[], inner: AbortSignal) => {
    const all = ["--config", configuration, ...args];
    const one = {
      program: binary,
      args: all,
      folder: work,
      environment,
      deadline: commandDeadlineMs,
      ...user,
    };
    return await runCommand(one, inner);
  };
  await command(["migrate"], signal);
  const logFile = join(options.folder, "gitea.log");
  const server = await startServer({
    name: "gitea",
    program: binary,
    args: ["--config", configuration, "web"],
    folder: work,
    environment,
    logFile,
    ...user,
  });
  const url = `http://${address}:${port}`;
  try {
    await within(startDeadlineMs, "the start of gitea", (inner) => untilHealthy(url, server, inner), signal);
  } catch (error) {
    await server.stop(0);
    throw error;
  }
  const stop = () => server.stop();
  return {
    url,
    port,
    logFile,
    pid: server.pid,
    exited: server.exited,
    command,
    signal: (name) => server.signal(name),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function untilHealthy(url: string, server: ServerProcess, signal: AbortSignal): Promise<void> {
  const asked = new AbortController();
  const both = AbortSignal.any([signal, asked.signal]);
  try {
    await Promise.race([askUntilHealthy(url, both), server.failure(both)]);
  } finally {
    asked.abort();
  }
}

async function askUntilHealthy(url: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      if ((await fetch(`${url}/api/healthz`, { signal })).ok) return;
    } catch {
      // Nobody listens yet; an abort shows in the wait below.
    }
    await systemClock.sleep(50, signal);
  }
}

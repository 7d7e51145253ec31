import { type ChildProcess, spawn } from "node:child_process";
import type { Clock } from "../platform/clock.ts";

export type Command = {
  readonly program: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  /** Hears its process id. */
  readonly onStart?: (pid: number) => void;
};

export type CommandEnd =
  | { readonly kind: "exited"; readonly code: number }
  | { readonly kind: "killed"; readonly signal: string }
  | { readonly kind: "not-started"; readonly reason: string };

/**
 * Runs a program in our folder and process group, with our output; the backend ends the group. When `stop` is
 * aborted it gets SIGTERM, and SIGKILL `graceMs` later. Resolves when the program itself has ended: what it
 * left running may hold its output open. Never rejects.
 */
export async function runCommand(
  command: Command,
  clock: Clock,
  graceMs: number,
  stop: AbortSignal,
): Promise<CommandEnd> {
  if (stop.aborted) return { kind: "not-started", reason: "it was to end before it began" };
  const child = spawn(command.program, command.args, {
    env: command.environment,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (child.pid !== undefined) command.onStart?.(child.pid);
  const over = new AbortController();
  const terminate = async () => {
    child.kill("SIGTERM");
    await clock.sleep(graceMs, over.signal);
    child.kill("SIGKILL");
  };
  const onStop = () => void terminate().catch(() => undefined);
  stop.addEventListener("abort", onStop, { once: true });
  try {
    return await endOf(child);
  } finally {
    stop.removeEventListener("abort", onStop);
    over.abort();
  }
}

function endOf(child: ChildProcess): Promise<CommandEnd> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve({ kind: "not-started", reason: error.message }));
    child.once("exit", (code, signal) =>
      resolve(code === null ? { kind: "killed", signal: String(signal) } : { kind: "exited", code }),
    );
  });
}

/** "ended with code 1", as the end of a sentence. */
export function describeEnd(end: CommandEnd): string {
  switch (end.kind) {
    case "exited":
      return `ended with exit code ${end.code}`;
    case "killed":
      return `was killed by ${end.signal}`;
    case "not-started":
      return `could not be started: ${end.reason}`;
    default:
      return end satisfies never;
  }
}

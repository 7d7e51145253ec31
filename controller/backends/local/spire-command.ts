import { execFile, type ExecFileException } from "node:child_process";
import { BackendError } from "../backend.ts";

/** Where a SPIRE server is, and with which program it is asked. */
export type SpireServer = { readonly serverBinary: string; readonly serverSocket: string };

const deadlineMs = 10_000;
const maxAnswerBytes = 64 * 1024 * 1024;

/**
 * Asks a SPIRE server something with a command of `spire-server`, such as `["entry", "show"]`, and resolves to its
 * answer, parsed but not checked. What the server refuses about single entries stands in the answer. Rejects with the
 * signal's reason, or with a retryable BackendError if the server does not answer within 10 s or refuses as a whole.
 */
export async function askSpireServer(
  { serverBinary, serverSocket }: SpireServer,
  command: readonly string[],
  signal: AbortSignal,
): Promise<unknown> {
  const what = `spire-server ${command.slice(0, 2).join(" ")}`;
  const args = [...command, "-socketPath", serverSocket, "-output", "json"];
  const { error, stdout, stderr } = await run(serverBinary, args, signal);
  signal.throwIfAborted();
  if (error !== null) {
    const said = stderr.trim().split("\n").at(-1) ?? "";
    const how = error.killed === true ? `no end within ${deadlineMs / 1000} s` : said || error.message;
    throw new BackendError("retryable", `${what}: ${how}`);
  }
  try {
    return JSON.parse(stdout);
  } catch (cause) {
    throw new BackendError("retryable", `${what} did not answer in JSON`, { cause });
  }
}

type End = {
  readonly error: ExecFileException | null;
  readonly stdout: string;
  readonly stderr: string;
};

function run(program: string, args: readonly string[], signal: AbortSignal): Promise<End> {
  const options = { signal, timeout: deadlineMs, killSignal: "SIGKILL", maxBuffer: maxAnswerBytes } as const;
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });
}

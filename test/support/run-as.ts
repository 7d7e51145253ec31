import { execFile } from "node:child_process";

export type End = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Runs a program to its end as another user, with nothing of our own environment. */
export function runAs(
  uid: number,
  program: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<End> {
  const options = {
    uid,
    gid: uid,
    cwd: "/",
    env: environment,
    timeout: 100_000,
    killSignal: "SIGKILL",
  } as const;
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr: stderr || (error?.message ?? "") });
    });
  });
}

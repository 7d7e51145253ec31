import { spawn } from "node:child_process";
import path from "node:path";

/** A line of the controller's log, as it stands on stderr. */
export type LogLine = {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly component?: string;
  readonly error?: string;
  readonly [field: string]: unknown;
};

/** `node controller/main.ts` as a child process, seen from outside. */
export type ControllerChild = AsyncDisposable & {
  /** All that it wrote so far. */
  output(): { readonly stdout: string; readonly stderr: string };
  lines(): readonly LogLine[];
  /** Resolves to the first line with this message. Rejects, with all that was written, if it ends before. */
  line(message: string): Promise<LogLine>;
  signal(name: NodeJS.Signals): void;
  /** Resolves to its exit code, or to the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
};

const main = path.join(import.meta.dirname, "../../controller/main.ts");

/** Starts it with these variables and no others. It is killed when it is disposed of. */
export function startControllerChild(
  environment: Readonly<Record<string, string>>,
  nodeOptions: readonly string[] = [],
): ControllerChild {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [...nodeOptions, main], {
    env: { PATH, NODE_COMPILE_CACHE, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const written = { stdout: "", stderr: "" };
  let watchers: (() => void)[] = [];
  for (const stream of ["stdout", "stderr"] as const)
    child[stream].setEncoding("utf8").on("data", (chunk: string) => {
      written[stream] += chunk;
      for (const watcher of watchers) watcher();
    });
  let over = false;
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once("close", (code, signal) => {
      over = true;
      resolve(code ?? signal ?? "SIGKILL");
      for (const watcher of watchers) watcher();
    });
  });
  const lines = () =>
    written.stderr
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as LogLine);
  return {
    output: () => ({ ...written }),
    lines,
    line: (message) =>
      new Promise((resolve, reject) => {
        const watcher = () => {
          const found = lines().find(({ msg }) => msg === message);
          if (found === undefined && !over) return;
          watchers = watchers.filter((other) => other !== watcher);
          if (found !== undefined) resolve(found);
          else reject(new Error(`it ended without "${message}":\n${written.stdout}${written.stderr}`));
        };
        watchers.push(watcher);
        watcher();
      }),
    signal: (name) => void child.kill(name),
    exited,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

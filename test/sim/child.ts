import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export type ChildOptions = {
  /** A file of this folder, and its arguments. */
  readonly program: string;
  readonly args: readonly string[];
  /** Breaks the core in the child. */
  readonly mutant?: string;
  /** Where the child finds what another one has compiled already. */
  readonly cache: string;
  /** Hears of each line on stdout or stderr. */
  readonly onLine: (line: string) => void;
};

/** A young generation of this many megabytes: a run's garbage is collected when the run is over, and most at once. */
const youngMegabytes = 32;

/** Runs a program in a process of its own; resolves to its exit code, -1 if a signal has ended it. */
export async function runChild(options: ChildOptions, signal: AbortSignal): Promise<number> {
  const { program, args, mutant, cache, onLine } = options;
  const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
  const mutate = mutant === undefined ? [] : ["--import", here("mutate.ts")];
  const flags = [`--max-semi-space-size=${youngMegabytes}`, ...mutate];
  const child = spawn(process.execPath, [...flags, here(program), ...args], {
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: cache,
      ...(mutant === undefined ? {} : { SIM_MUTANT: mutant }),
    },
    stdio: ["ignore", "pipe", "pipe"],
    signal,
    killSignal: "SIGKILL",
  });
  const lines = [child.stdout, child.stderr].map(async (stream) => {
    for await (const line of createInterface({ input: stream })) onLine(line);
  });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once("error", reject);
  child.once("close", (code) => {
    resolve(code ?? -1);
  });
  const [code] = await Promise.all([promise, ...lines]);
  return code;
}

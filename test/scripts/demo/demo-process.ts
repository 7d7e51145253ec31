import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before } from "mocha";
import { systemClock } from "../../../controller/platform/clock.ts";
import { eventually } from "../../support/eventually.ts";

/** The demo as a process of its own, in a folder for temporary files that nobody else has. */
export type DemoProcess = {
  /** What it wrote so far, on both outputs. */
  readonly lines: readonly string[];
  /** Waits for a line; rejects with all lines when the demo ends first. */
  line(pattern: RegExp): Promise<string>;
  /** To its group, as Ctrl-C does. */
  interrupt(): void;
  /** The same, or another signal; resolves to its exit code. Fails if that takes longer than it may. */
  stop(by?: NodeJS.Signals): Promise<number | NodeJS.Signals | null>;
  /** Resolves to its exit code, or to the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;
};

export type DemoRuns = {
  readonly folder: string;
  start(args: readonly string[], environment?: NodeJS.ProcessEnv): DemoProcess;
  /** On a terminal of `terminalColumns`; its lines are what was written there, escape sequences and all. */
  startOnTerminal(args: readonly string[]): DemoProcess;
  /** Fails if a file is left in the folder, or for long a process that was told of it. */
  assertNothingIsLeft(): Promise<void>;
};

/** A program of util-linux that runs another one on a terminal, and passes on what that writes. */
export const terminalTool = "script";
const terminalColumns = 120;

/** From Ctrl-C to the end of everything, also on a busy machine. */
const stopMs = 40_000;
const program = path.join(import.meta.dirname, "../../../scripts/demo.ts");

/** Registers hooks that make and remove the folder, and end what a failed test left. */
export function useDemo(): DemoRuns {
  let folder = "";
  let running: { readonly pid: number; readonly demo: DemoProcess } | undefined;
  before("make a folder for temporary files", async () => {
    // A short path: the sockets in it are limited to 107 characters.
    folder = await mkdtemp(path.join(tmpdir(), "d-"));
    await chmod(folder, 0o755);
  });
  afterEach("end the demo", async function () {
    if (running === undefined) return;
    const { demo, pid } = running;
    running = undefined;
    if (this.currentTest?.state === "failed") process.stderr.write(`${demo.lines.join("\n")}\n`);
    signal(pid, "SIGTERM");
    await demo.ended;
  });
  after("remove the folder", () => rm(folder, { recursive: true, force: true }));
  const run = (command: string, args: readonly string[], environment: NodeJS.ProcessEnv) => {
    const child = spawn(command, args, {
      env: { ...environment, TMPDIR: folder },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const { pid } = child;
    assert.ok(pid !== undefined);
    const lines: string[] = [];
    const waiting = new Set<() => void>();
    for (const input of [child.stdout, child.stderr])
      createInterface({ input }).on("line", (line) => {
        lines.push(line);
        for (const look of waiting) look();
      });
    const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
      child.once("close", (code, killedBy) => {
        resolve(code ?? killedBy);
        for (const look of waiting) look();
      });
    });
    const line = (pattern: RegExp) =>
      new Promise<string>((resolve, reject) => {
        const look = () => {
          const found = lines.find((one) => pattern.test(one));
          if (found !== undefined) resolve(found);
          else if (child.exitCode === null && child.signalCode === null) return;
          else reject(new Error(`the demo ended without ${pattern}:\n${lines.join("\n")}`));
          waiting.delete(look);
        };
        waiting.add(look);
        look();
      });
    const interrupt = () => signal(pid, "SIGINT");
    const stop = async (by: NodeJS.Signals = "SIGINT") => {
      const asked = systemClock.now();
      signal(pid, by);
      const code = await ended;
      const took = systemClock.now() - asked;
      assert.ok(took <= stopMs, `it took ${took / 1000} s to end`);
      return code;
    };
    const demo = { lines, line, ended, interrupt, stop };
    running = { pid, demo };
    return demo;
  };
  return {
    get folder() {
      return folder;
    },
    start: (args, environment = process.env) => run(process.execPath, [program, ...args], environment),
    startOnTerminal: (args) => {
      const words = [process.execPath, program, ...args].map((word) => `'${word}'`);
      const command = `stty rows 30 cols ${terminalColumns} && exec ${words.join(" ")}`;
      const environment = { ...process.env, TERM: "xterm", NO_COLOR: "1" };
      return run(terminalTool, ["--quiet", "--return", "--command", command, "/dev/null"], environment);
    },
    assertNothingIsLeft: async () => {
      assert.deepEqual(readdirSync(folder), []);
      await assertNoneKnows(folder);
    },
  };
}

/** Fails if there is such a process, and for more than a moment: one that was killed is still to be seen until it runs again. */
export async function assertNoneKnows(word: string): Promise<void> {
  await eventually("it has ended", () => processesThatKnow(word).length === 0, 30_000).catch(() => undefined);
  assert.deepEqual(processesThatKnow(word), []);
}

/** Command lines of all processes whose arguments or environment hold a word; those of other users only for root. */
export function processesThatKnow(word: string): readonly string[] {
  const read = (pid: string, file: string) => {
    try {
      return readFileSync(path.join("/proc", pid, file), "utf8").replaceAll("\0", " ");
    } catch {
      return "";
    }
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => read(pid, "cmdline").includes(word) || read(pid, "environ").includes(word))
    .map((pid) => `${pid} ${read(pid, "cmdline")}`);
}

function signal(group: number, name: NodeJS.Signals): void {
  try {
    process.kill(-group, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

import { mkdir } from "node:fs/promises";
import path from "node:path";
import { startServer, type ServerProcess } from "../peers/server-process.ts";

/** One line of the controller's log. */
export type ControllerLine = {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
};

export type ControllerOptions = {
  /** What the controller is configured with, and nothing else of our own environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Made unless it is there. */
  readonly folder: string;
  /** The line that says that it stands; that it leads and serves unless given. */
  readonly ready?: RegExp;
  /** Hears each line that it logs. */
  readonly onLine?: (line: ControllerLine) => void;
};

/** It ends by itself where it cannot run; a busy machine, or certificates that are not valid yet, only take their time. */
const startDeadlineMs = 180_000;

/**
 * Starts the controller as a process of its own and waits until it runs. Rejects with the end of its log if it
 * ends first. npm is left out: it neither passes signals on nor ends its child.
 */
export async function startController(
  options: ControllerOptions,
  signal: AbortSignal,
): Promise<ServerProcess> {
  const { onLine, ready = /"msg":"runner started"/ } = options;
  await mkdir(options.folder, { recursive: true });
  const controller = await startServer({
    name: "the controller",
    program: process.execPath,
    args: [path.join(import.meta.dirname, "../../controller/main.ts")],
    folder: options.folder,
    environment: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", ...options.environment },
    logFile: path.join(options.folder, "controller.log"),
    onLine: (text) => {
      const line = parseLine(text);
      if (line !== undefined) onLine?.(line);
    },
  });
  try {
    await controller.line(ready, startDeadlineMs, signal);
    return controller;
  } catch (error) {
    await controller.stop();
    throw error;
  }
}

function parseLine(text: string): ControllerLine | undefined {
  try {
    const line: unknown = JSON.parse(text);
    return typeof line === "object" && line !== null && "msg" in line ? (line as ControllerLine) : undefined;
  } catch {
    return undefined;
  }
}

import { systemClock } from "../../../controller/platform/clock.ts";
import type { ServerProcess } from "../server-process.ts";
import { untilGroupStopped } from "../stopped-group.ts";
import { within } from "../within.ts";

/** One program of the cluster, which can be troubled. */
export type Component = {
  readonly name: string;
  readonly logFile: string;
  /** The process that runs now, or ran last. */
  process(): ServerProcess;
  /** It does nothing any more, from when this resolves until it is resumed; connections to it stay. */
  pause(): Promise<void>;
  resume(): void;
  /** Ends it as a crash would. Stopping twice is no error. */
  stop(): Promise<void>;
  /** Starts it again, after it was stopped, and waits until it is ready. */
  start(signal: AbortSignal): Promise<void>;
};

export type ComponentRecipe = {
  readonly name: string;
  readonly logFile: string;
  readonly launch: () => Promise<ServerProcess>;
  /** Asked again and again; a rejection is a no. */
  readonly isReady: (signal: AbortSignal) => Promise<boolean>;
};

const readyDeadlineMs = 120_000;
const pollMs = 100;

/** Starts it and waits until it is ready. Rejects with the end of its log when it ends before, or takes two minutes. */
export async function startComponent(recipe: ComponentRecipe, signal: AbortSignal): Promise<Component> {
  let current = await launched(recipe, signal);
  return {
    name: recipe.name,
    logFile: recipe.logFile,
    process: () => current,
    pause: async () => {
      current.signal("SIGSTOP");
      await untilGroupStopped(current.pid);
    },
    resume: () => current.signal("SIGCONT"),
    stop: () => current.stop(),
    start: async (abort) => {
      await current.stop();
      current = await launched(recipe, abort);
    },
  };
}

async function launched(recipe: ComponentRecipe, signal: AbortSignal): Promise<ServerProcess> {
  signal.throwIfAborted();
  const started = await recipe.launch();
  const over = new AbortController();
  const wait = async (inner: AbortSignal) => {
    const either = AbortSignal.any([inner, over.signal]);
    await Promise.race([untilTrue(recipe.isReady, either), started.failure(either)]);
  };
  try {
    await within(readyDeadlineMs, `the start of ${recipe.name} (${recipe.logFile})`, wait, signal);
    return started;
  } catch (error) {
    await started.stop(0);
    throw error;
  } finally {
    over.abort();
  }
}

/** Resolves when the answer is yes; a rejection is a no, until the signal is aborted. */
export async function untilTrue(
  ask: (signal: AbortSignal) => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const answer = await ask(signal).catch(() => false);
    signal.throwIfAborted();
    if (answer) return;
    await systemClock.sleep(pollMs, signal);
  }
}

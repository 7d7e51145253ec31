import { isAbortOf } from "./signal.ts";

export type Task = { readonly name: string; run(signal: AbortSignal): Promise<void> };

/** A task of a group failed; the others were stopped. The message names the task. */
export class TaskFailedError extends Error {
  override readonly name = "TaskFailedError";
}

/**
 * Runs all tasks until each has ended. The first that fails, or that ends though nobody asked it to, stops the
 * others; then the group rejects with TaskFailedError. An abort of `signal` stops all and is no error.
 */
export async function runTasks(tasks: readonly Task[], signal: AbortSignal): Promise<void> {
  const group = new AbortController();
  const all = AbortSignal.any([signal, group.signal]);
  let failure: TaskFailedError | undefined;
  const fail = (name: string, cause: unknown) => {
    failure ??= new TaskFailedError(name, { cause });
    group.abort(failure);
  };
  await Promise.all(
    tasks.map(async (task) => {
      try {
        await task.run(all);
        if (!all.aborted) fail(task.name, new Error("it ended by itself"));
      } catch (error) {
        if (!isAbortOf(all, error)) fail(task.name, error);
      }
    }),
  );
  if (failure !== undefined) throw failure;
}

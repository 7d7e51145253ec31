import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { abortable } from "../../../controller/platform/signal.ts";
import { runTasks, TaskFailedError } from "../../../controller/platform/task-group.ts";

const untilAborted = (signal: AbortSignal) => abortable(new Promise<void>(() => undefined), signal);

describe("a task group", () => {
  it("B-81 stops the others when one fails, and names the one that did", async () => {
    let stopped = false;
    const other = async (signal: AbortSignal) => {
      await untilAborted(signal).finally(() => (stopped = true));
    };
    const failing = async () => {
      await Promise.resolve();
      throw new Error("port in use");
    };
    const run = runTasks(
      [
        { name: "facade", run: failing },
        { name: "scheduler", run: other },
      ],
      new AbortController().signal,
    );
    await assert.rejects(run, (error) => {
      assert.ok(error instanceof TaskFailedError);
      assert.equal(error.message, "facade");
      assert.equal((error.cause as Error).message, "port in use");
      return true;
    });
    assert.ok(stopped);
  });

  it("counts a task that ends by itself as failed", async () => {
    const tasks = [
      { name: "worker", run: () => Promise.resolve() },
      { name: "scheduler", run: untilAborted },
    ];
    await assert.rejects(runTasks(tasks, new AbortController().signal), { message: "worker" });
  });

  it("B-81 ends without an error when it is asked to stop, after each task has ended", async () => {
    const stop = new AbortController();
    const order: string[] = [];
    const task = (name: string) => ({
      name,
      run: async (signal: AbortSignal) => {
        await untilAborted(signal).catch(() => undefined);
        order.push(name);
      },
    });
    const run = runTasks([task("a"), task("b")], stop.signal);
    stop.abort(new Error("SIGTERM"));
    await run;
    assert.deepEqual(order, ["a", "b"]);
  });
});

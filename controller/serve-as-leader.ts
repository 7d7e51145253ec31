import type { Core, LeaderTask } from "./core.ts";
import type { Leadership } from "./lifecycle/lead.ts";
import { LeaseLostError, mustLead } from "./lifecycle/lead.ts";
import { isOutage } from "./outage.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import { persist } from "./platform/persist.ts";
import { isAbortOf, untilAborted } from "./platform/signal.ts";
import { runTasks, type Task } from "./platform/task-group.ts";
import type { LeaderKey } from "./record/leader-key.ts";

export type ServeOptions = {
  readonly core: Pick<Core, "recover" | "leaderTasks" | "relayTasks">;
  readonly leaderKey: LeaderKey;
  /** Listens for executors. */
  readonly openFacade: (signal: AbortSignal) => Promise<AsyncDisposable>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/**
 * The work of a leader, until `stop` is aborted: says that it leads, recovers, serves executors, and does all that only
 * a leader may. When its time as leader is over the latter ends by itself, and executors are served until another
 * leader may be at work; then the facade closes at once, or they would stay with it. At a stop it is left open for
 * whoever closes it after the Lease is released. Rejects if something fails for good.
 */
export async function serveAsLeader(
  { core, leaderKey, openFacade, clock, random, log }: ServeOptions,
  leadership: Leadership,
  stop: AbortSignal,
): Promise<void> {
  const leading = AbortSignal.any([leadership.leading, stop]);
  const serving = AbortSignal.any([leadership.serving, stop]);
  const outages = { passing: isOutage, clock, random, log: log.child({ component: "lifecycle" }) };
  const tell = (signal: AbortSignal) =>
    leaderKey.write(() => {
      mustLead(leadership);
    }, signal);
  await persist(tell, { doing: "writing the key leader", ...outages }, leading);
  await core.recover(leading);
  const facade = await openFacade(leading);
  const closing = closeAt(leadership.serving, facade);
  try {
    log.info({ component: "main" }, "runner started");
    const tasks = [...core.leaderTasks, lookForAnother(leaderKey, leadership)];
    const asLeader = tasks.map((task) => whileLeading(task, leading));
    await runTasks([...asLeader, ...core.relayTasks], serving);
  } finally {
    await closing.done();
  }
}

/**
 * Fails if another one leads though the Lease is ours: it has another one, as after a move to another namespace. It
 * would hear nothing of our executors, and we nothing of its own: each would take the other's jobs for silent.
 */
function lookForAnother(leaderKey: Pick<LeaderKey, "superseded">, leadership: Leadership): LeaderTask {
  return {
    name: "key leader",
    run: async (signal) => {
      await leaderKey.superseded(signal);
      mustLead(leadership);
      throw new LeaseLostError(
        "another controller leads over the same NATS_STREAM: it needs one of its own, or the same CONTROLLER_NAMESPACE",
      );
    },
  };
}

/** Beside those that go on: it has ended in order when this process leads no more, and the others are not to end with it. */
function whileLeading(task: LeaderTask, leading: AbortSignal): Task {
  return {
    name: task.name,
    run: async (serving) => {
      const either = AbortSignal.any([leading, serving]);
      try {
        await task.run(either, serving);
      } catch (error) {
        if (!isAbortOf(either, error)) throw error;
      }
      if (either.aborted) await untilAborted(serving);
    },
  };
}

/** Closes it when the signal is aborted. `done` waits for that, if it has begun, and takes the listener off. */
function closeAt(signal: AbortSignal, facade: AsyncDisposable) {
  let closing: Promise<void> | undefined;
  const close = () => {
    closing = Promise.resolve(facade[Symbol.asyncDispose]());
  };
  if (signal.aborted) close();
  else signal.addEventListener("abort", close, { once: true });
  return {
    done: async () => {
      signal.removeEventListener("abort", close);
      await closing;
    },
  };
}

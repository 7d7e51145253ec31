import { describeError } from "../platform/errors.ts";
import { listenForAny } from "../platform/wakeup.ts";
import { createLeaseKeeper, type LeaseKeeperOptions } from "./lease-keeper.ts";

/** This process does not lead any more, and never will again: it has to end, and another one goes on. */
export class LeaseLostError extends Error {
  override readonly name = "LeaseLostError";
}

/** What the work of a leader has to know. */
export type Leadership = {
  /** Aborted by the renew deadline at the latest: fetching, creating, deleting and verdicts stop. */
  readonly leading: AbortSignal;
  /** Aborted when another leader may be at work: until then executors are served. */
  readonly serving: AbortSignal;
  /**
   * To be asked right before whatever only a leader may do. A process that stood still has timers that are late, and
   * does not know yet that its time is over.
   */
  holds(): boolean;
};

/** Throws why, if this process leads no more. */
export function mustLead(leadership: Leadership): void {
  if (leadership.holds()) return;
  leadership.leading.throwIfAborted();
  throw new LeaseLostError("the work of this leader has ended");
}

/**
 * Throws why, if another leader may be at work. To be asked right before what an executor has said goes to Gitea, which
 * does not lock a task's log: two controllers that write it at once would tear it.
 */
export function mayServe(leadership: Leadership): void {
  // Finds out that this process stood still, before its timers do.
  leadership.holds();
  leadership.serving.throwIfAborted();
}

export type LeadOptions = LeaseKeeperOptions & {
  /**
   * Resolves when another leader is seen elsewhere than in the Lease; asked when it is lost. Rejects with nothing but
   * the signal's reason.
   */
  readonly superseded?: (signal: AbortSignal) => Promise<void>;
};

/**
 * Waits until this process leads, has the work done, and renews the Lease until the work has ended; then releases it,
 * so that the next one begins at once. An abort of `signal` ends the wait, which rejects with its reason; the work has
 * to see to it by itself. When the Lease is lost the work is told, and once it has ended this rejects with
 * LeaseLostError, or with what the work rejects with. Never leads twice.
 */
export async function lead(
  options: LeadOptions,
  work: (leadership: Leadership) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { identity, log, superseded } = options;
  const keeper = createLeaseKeeper(options);
  await keeper.acquire(signal);
  log.info({ identity }, "this controller leads");

  const [lost, over, ended] = [new AbortController(), new AbortController(), new AbortController()];
  const lose = (why: string) => {
    if (lost.signal.aborted) return;
    log.error({ identity, reason: why }, "this controller leads no more");
    lost.abort(new LeaseLostError(`the Lease is lost: ${why}`));
    // It is told late, because this process stood still: what came meanwhile is for whoever leads now.
    if (keeper.mayBeTaken()) over.abort(lost.signal.reason);
  };
  const keepUp = async () => {
    const either = AbortSignal.any([lost.signal, ended.signal]);
    const why = await keeper.renew(either).catch(describeError);
    if (ended.signal.aborted) return;
    lose(why);
    // Somebody else may have it already, or will soon: whoever of the two is told first.
    const signs = [
      (abort: AbortSignal) => keeper.ask(abort),
      ...(superseded === undefined ? [] : [superseded]),
    ];
    using sign = listenForAny(signs, ended.signal);
    await sign.first().catch(() => undefined);
    if (!ended.signal.aborted) over.abort(lost.signal.reason);
  };

  const upkeep = keepUp();
  try {
    await work({
      leading: lost.signal,
      serving: over.signal,
      holds: () => {
        if (keeper.msLeft() <= 0) lose("this process stood still");
        return !lost.signal.aborted && !ended.signal.aborted;
      },
    });
  } finally {
    ended.abort(new Error("the work has ended"));
    await upkeep;
    await keeper.release(new AbortController().signal).catch((error: unknown) => {
      log.warn({ error: describeError(error) }, "the Lease could not be released");
    });
  }
  lost.signal.throwIfAborted();
}

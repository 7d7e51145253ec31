import { Code, ConnectError } from "@connectrpc/connect";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { DeadlineError, withDeadline } from "./deadline.ts";
import type { FacadeClient, FacadeConnection } from "./facade-client.ts";
import { RefusedError, untilAnswered } from "./until-answered.ts";

export type FacadeCall<T> = (client: FacadeClient, options: { readonly signal: AbortSignal }) => Promise<T>;

/** Milliseconds: the deadline of each try, and the pause between two. */
export type Pace = { readonly deadline: number; readonly every: number };

/** Calls to the facade, one at a time or until there is an answer. */
export type FacadeCalls = {
  /**
   * One call with a deadline. Rejects with RefusedError for `unauthenticated`, else with what went wrong: the
   * outcome may then be unknown, and the caller decides about a repetition.
   */
  once<T>(call: FacadeCall<T>, deadline: number, signal: AbortSignal): Promise<T>;
  /** Repeats a call until it is answered; rejects with RefusedError or the reason of the signal only. */
  untilAnswered<T>(what: string, call: FacadeCall<T>, pace: Pace, signal: AbortSignal): Promise<T>;
};

export function createFacadeCalls(connection: FacadeConnection, clock: Clock, log: Logger): FacadeCalls {
  const once: FacadeCalls["once"] = async (call, deadline, signal) => {
    const run = (inner: AbortSignal) => call(connection.client, { signal: inner });
    try {
      return await withDeadline(clock, deadline, run, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (isLost(error)) connection.redial();
      throw isRefusal(error) ? new RefusedError("the facade refuses for good", { cause: error }) : error;
    }
  };
  return {
    once,
    untilAnswered: (what, call, { deadline, every }, signal) =>
      untilAnswered({ what, every, clock, log }, () => once(call, deadline, signal), signal),
  };
}

/** Sent on proof from the record or from Gitea, see the facade; every other code may pass. */
function isRefusal(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Unauthenticated;
}

/**
 * The connection is of no use any more. A cancel that we did not ask for is how a facade that does not accept
 * our certificate (yet) looks from here: TLS 1.3 tells us only by closing.
 */
function isLost(error: unknown): boolean {
  return error instanceof DeadlineError || (error instanceof ConnectError && error.code === Code.Canceled);
}

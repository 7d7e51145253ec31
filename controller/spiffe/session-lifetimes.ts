import type { Http2Session } from "node:http2";
import type { Clock } from "../platform/clock.ts";

/** Ends HTTP/2 sessions when their time is over: TLS judges a certificate once, when a session begins. */
export type SessionLifetimes = {
  /** Ends the session at this time (milliseconds since the epoch), or with all the others. */
  add(session: Http2Session, endsAt: number): void;
  /** Ends all sessions; resolves when they are closed. */
  endAll(): Promise<void>;
};

/**
 * An end is a GOAWAY, so that calls that run may finish, and after the grace a cut. A call that crosses the GOAWAY
 * on its way is not begun (REFUSED_STREAM), which a connect client sees as `unavailable` and may repeat.
 */
export function createSessionLifetimes(clock: Clock, graceMs: number): SessionLifetimes {
  const lives = new Set<Promise<void>>();
  const ending = new AbortController();
  const live = async (session: Http2Session, endsAt: number): Promise<void> => {
    const closed = new AbortController();
    session.once("close", () => closed.abort());
    const cut = AbortSignal.any([closed.signal, ending.signal]);
    await waited(clock, endsAt - clock.now(), cut);
    if (closed.signal.aborted) return;
    session.close();
    if (await waited(clock, graceMs, closed.signal)) session.destroy();
  };
  return {
    add: (session, endsAt) => {
      const life = live(session, endsAt);
      lives.add(life);
      void life.finally(() => lives.delete(life));
    },
    endAll: async () => {
      ending.abort();
      await Promise.all(lives);
    },
  };
}

/** Whether the time passed before the signal was aborted. */
function waited(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}

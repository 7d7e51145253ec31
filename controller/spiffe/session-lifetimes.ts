import type { Http2Session, Http2Stream } from "node:http2";
import type { Clock } from "../platform/clock.ts";

/** Ends HTTP/2 sessions when their time is over: TLS judges a certificate once, when a session begins. */
export type SessionLifetimes = {
  /** Ends the session at this time (milliseconds since the epoch), when it has been idle for too long, or with all the others. */
  add(session: Http2Session, endsAt: number): void;
  /** Ends a session at this time if it would not end before; one that is closed is no error. */
  endAt(session: Http2Session, endsAt: number): void;
  /** Ends all sessions; resolves when they are closed. */
  endAll(): Promise<void>;
};

export type SessionTimes = {
  /** How long running calls may go on after a session's end. */
  readonly graceMs: number;
  /** How long a session may stay open without a call. */
  readonly idleMs: number;
};

type Life = {
  endsAt: number;
  idleSince: number;
  calls: number;
  /** Wakes the wait for an end that has come nearer. */
  sooner: AbortController;
};

/**
 * An end is a GOAWAY, so that calls that run may finish, and after the grace a cut. A call that crosses the GOAWAY
 * on its way is not begun (REFUSED_STREAM), which a connect client sees as `unavailable` and may repeat.
 */
export function createSessionLifetimes(clock: Clock, { graceMs, idleMs }: SessionTimes): SessionLifetimes {
  const running = new Set<Promise<void>>();
  const lives = new WeakMap<Http2Session, Life>();
  const ending = new AbortController();
  const dueAt = ({ endsAt, idleSince, calls }: Life) =>
    Math.min(endsAt, (calls > 0 ? clock.now() : idleSince) + idleMs);
  const live = async (session: Http2Session, life: Life): Promise<void> => {
    const closed = new AbortController();
    session.once("close", () => closed.abort());
    const cut = AbortSignal.any([closed.signal, ending.signal]);
    for (let due = dueAt(life); clock.now() < due && !cut.aborted; due = dueAt(life)) {
      life.sooner = new AbortController();
      await waited(clock, due - clock.now(), AbortSignal.any([cut, life.sooner.signal]));
    }
    if (closed.signal.aborted) return;
    session.close();
    if (await waited(clock, graceMs, closed.signal)) session.destroy();
  };
  return {
    add: (session, endsAt) => {
      const life: Life = { endsAt, idleSince: clock.now(), calls: 0, sooner: new AbortController() };
      lives.set(session, life);
      session.on("stream", (stream: Http2Stream) => {
        life.calls++;
        stream.once("close", () => {
          life.calls--;
          life.idleSince = clock.now();
        });
      });
      const run = live(session, life);
      running.add(run);
      void run.finally(() => running.delete(run));
    },
    endAt: (session, endsAt) => {
      const life = lives.get(session);
      if (life === undefined || endsAt >= life.endsAt) return;
      life.endsAt = endsAt;
      life.sooner.abort();
    },
    endAll: async () => {
      ending.abort();
      await Promise.all(running);
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

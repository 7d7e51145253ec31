import type { Failure } from "../assignment/failure.ts";
import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";

/**
 * Whether a backend is asked for executors. A backend that keeps failing is left alone and probed with one create
 * at a time, ever more rarely: its trouble is not the jobs', which wait for it.
 */
export type CircuitState =
  | { readonly name: "closed"; readonly failures: number }
  | {
      readonly name: "open";
      /** Since when nothing but probes is created. */
      readonly since: number;
      /** When the next probe may begin. */
      readonly until: number;
      /** How often it has opened without a success in between. */
      readonly openings: number;
      readonly failure: Failure;
    }
  /** A probe is under way. */
  | {
      readonly name: "half-open";
      readonly since: number;
      readonly openings: number;
      readonly failure: Failure;
    };

export type CircuitSettings = {
  /** Opens after so many failures without a success in between. */
  readonly failures: number;
  /** The first probe comes after this many milliseconds, each further one after twice as many … */
  readonly firstMs: number;
  /** … but not more than this. */
  readonly maxMs: number;
};

export const closed: CircuitState = { name: "closed", failures: 0 };

/** A call failed that says something about the backend and not about one assignment. */
export function afterFailure(
  state: CircuitState,
  failure: Failure,
  now: number,
  settings: CircuitSettings,
): CircuitState {
  const open = (openings: number, since: number): CircuitState => ({
    name: "open",
    since,
    until: now + Math.min(settings.maxMs, settings.firstMs * 2 ** Math.min(30, openings - 1)),
    openings,
    failure,
  });
  switch (state.name) {
    case "closed":
      return state.failures + 1 < settings.failures
        ? { name: "closed", failures: state.failures + 1 }
        : open(1, now);
    case "open":
      // A call that began before it opened tells nothing new.
      return now < state.until ? state : open(state.openings + 1, state.since);
    case "half-open":
      return open(state.openings + 1, state.since);
    default:
      return state satisfies never;
  }
}

/** The state after a create begins, or undefined if none may. */
export function admitting(state: CircuitState, now: number): CircuitState | undefined {
  switch (state.name) {
    case "closed":
      return state;
    case "open": {
      const { since, openings, failure } = state;
      return now < state.until ? undefined : { name: "half-open", since, openings, failure };
    }
    case "half-open":
      return undefined;
    default:
      return state satisfies never;
  }
}

/** A clock that was set back must not keep a backend from being probed. */
export function inTime(state: CircuitState, now: number, { maxMs }: CircuitSettings): CircuitState {
  return state.name === "open" && state.until - now > maxMs ? { ...state, until: now } : state;
}

/** The state after a probe came to no outcome: the next one may begin at once. */
export function afterNothing(state: CircuitState, now: number): CircuitState {
  return state.name === "half-open" ? { ...state, name: "open", until: now } : state;
}

/** A create that was let through; exactly one of its outcomes counts. */
export type Pass = Disposable & {
  succeeded(): void;
  failed(failure: Failure): void;
};

export type Circuit = {
  /** Lets a create through, or says why not and when to ask again. Disposing of a pass without outcome is fine. */
  enter(): Pass | { readonly retryMs: number; readonly failure: Failure };
  /** A call other than a create has failed. */
  failed(failure: Failure): void;
  /** Why nothing may be created now and when to ask again; undefined if something may. */
  closedTo(): { readonly retryMs: number; readonly failure: Failure } | undefined;
  /** For health, metrics and the rows of waiting jobs. */
  state(): CircuitState;
};

/**
 * The breaker of one backend; two share nothing. `onChange` hears when it opens, with the reason, and when it closes;
 * probes are neither.
 */
export function createCircuit(
  clock: Pick<Clock, "now">,
  { retryMs }: Pick<Times, "retryMs">,
  onChange: (failure: Failure | undefined) => void = () => undefined,
): Circuit {
  const settings: CircuitSettings = { failures: 3, firstMs: retryMs, maxMs: 16 * retryMs };
  let state = closed;
  /** Nobody waits longer than this before it looks again: a probe may have closed it meanwhile. */
  const longestMs = 4 * retryMs;

  const closedTo = () => {
    state = inTime(state, clock.now(), settings);
    if (state.name === "closed" || admitting(state, clock.now()) !== undefined) return undefined;
    const { failure } = state;
    const ms = state.name === "open" ? state.until - clock.now() : retryMs;
    return { retryMs: Math.min(ms, longestMs), failure };
  };
  const become = (next: CircuitState) => {
    const before = state;
    state = next;
    if ((before.name === "closed") !== (next.name === "closed"))
      onChange(next.name === "closed" ? undefined : next.failure);
  };
  const failed = (failure: Failure) => {
    become(afterFailure(state, failure, clock.now(), settings));
  };

  return {
    closedTo,
    failed,
    state: () => state,
    enter: () => {
      const refused = closedTo();
      if (refused !== undefined) return refused;
      const admitted = admitting(state, clock.now()) ?? state;
      state = admitted;
      let open = true;
      const once = (outcome: () => void) => {
        if (open) outcome();
        open = false;
      };
      return {
        succeeded: () =>
          once(() => {
            become(closed);
          }),
        failed: (failure) =>
          once(() => {
            failed(failure);
          }),
        [Symbol.dispose]: () =>
          once(() => {
            // Only if it is still this probe's turn.
            if (state === admitted) state = afterNothing(state, clock.now());
          }),
      };
    },
  };
}

/** For the operator, without names: that nothing is created, since when and why; undefined if all is well. */
export function circuitProblem(state: CircuitState): string | undefined {
  if (state.name === "closed") return undefined;
  return `nothing is created since ${new Date(state.since).toISOString()}, the backend fails (${state.failure.reason})`;
}

import { CutOff } from "./watch.ts";
import { Refused, statusOf } from "./refused.ts";
import { type Call, type CallMatch, fits } from "./request.ts";

export type Fault =
  /** It is not done. */
  | {
      readonly status: number;
      readonly reason?: string;
      readonly message?: string;
      readonly retryAfterSeconds?: number;
      /** Instead of a Status. */
      readonly body?: unknown;
    }
  | "hang up"
  | "no answer"
  /** It is done, and nobody hears of it. */
  | "lost answer"
  | "answer that never comes";

export type Planned = { readonly met: Promise<void> };

export type Held = {
  /** The call is there. */
  readonly arrived: Promise<void>;
  /** Lets it go on. */
  release(): void;
};

export type Faults = {
  /** The next calls that fit, as many as `times` says. */
  failNext(match: CallMatch, fault: Fault, times?: number): Planned;
  /** The next call that fits waits, before it is done or after. */
  holdNext(match: CallMatch, when: "before" | "after"): Held;
  /** All calls are cut off from now on, or not any more. */
  setAway(away: boolean): void;
  around<T>(call: Call, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
};

type Plan = { readonly match: CallMatch; left: number; readonly act: Act; readonly meet: () => void };
type Act = <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

export function createFaults(): Faults {
  const plans = new Set<Plan>();
  let isAway = false;

  const plan = (match: CallMatch, left: number, act: Act) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    plans.add({ match, left, act, meet: resolve });
    return promise;
  };

  return {
    failNext: (match, fault, times = 1) => ({ met: plan(match, times, actOf(fault)) }),
    holdNext: (match, when) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const arrived = plan(match, 1, async (work, signal) => {
        if (when === "before") await either(promise, signal);
        const done = await work();
        if (when === "after") await either(promise, signal);
        return done;
      });
      return { arrived, release: resolve };
    },
    setAway: (away) => {
      isAway = away;
    },
    around: async (call, work, signal) => {
      if (isAway) throw new CutOff("the server is away");
      const planned = [...plans].find(({ match }) => fits(match, call));
      if (planned === undefined) return await work();
      if (--planned.left === 0) plans.delete(planned);
      planned.meet();
      return await planned.act(work, signal);
    },
  };
}

function actOf(fault: Fault): Act {
  return async (work, signal) => {
    if (typeof fault === "object") throw refusedFor(fault);
    if (fault === "lost answer" || fault === "answer that never comes") await work();
    if (fault === "no answer" || fault === "answer that never comes")
      await either(new Promise<never>(() => undefined), signal);
    throw new CutOff(fault);
  };
}

function refusedFor({ status, reason = "", message = "", body, retryAfterSeconds }: Exclude<Fault, string>) {
  const headers = retryAfterSeconds === undefined ? {} : { "Retry-After": String(retryAfterSeconds) };
  return new Refused(status, body ?? statusOf(status, reason, message), headers);
}

/** Also over when the caller has gone. */
async function either(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  const gone = Promise.withResolvers<never>();
  signal.addEventListener("abort", () => gone.reject(new CutOff("the caller has gone")), { once: true });
  await Promise.race([promise, gone.promise]);
}

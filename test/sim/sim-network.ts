import type { History } from "./history.ts";
import type { Prng } from "./prng.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimProcess } from "./sim-process.ts";

export const peers = ["gitea", "queue", "records", "backend", "facade"] as const;
export type Peer = (typeof peers)[number];

/** What may happen to calls to a peer, each with its probability. */
export type Weather = {
  /** It never arrives. */
  readonly lostRequest: number;
  /** It is carried out, and nobody hears of it. */
  readonly lostAnswer: number;
  /** It is carried out twice, as when something on the way repeats it. */
  readonly repeated: number;
  /** It, or its answer, takes up to this long instead of some milliseconds. */
  readonly slow: number;
  readonly slowMs: number;
  /** Only to calls whose name begins so. */
  readonly only?: string;
};

export const calm: Weather = { lostRequest: 0, lostAnswer: 0, repeated: 0, slow: 0, slowMs: 0 };

export type Call<T> = {
  readonly from: SimProcess;
  readonly to: Peer;
  /** For the history. */
  readonly what: string;
  /** How long the caller's client waits for an answer. */
  readonly timeoutMs: number;
  /**
   * What the peer does; what it throws is its answer too. A promise that never settles is no answer. `late`: its
   * caller has given it up.
   */
  readonly effect: (late: boolean) => T | Promise<T>;
  /** An answer that will not come, as the caller's client says it. */
  readonly lost: (why: string) => Error;
  /** A call that must not be carried out twice, since nothing on the way would repeat it. */
  readonly once?: boolean;
};

export type SimNetwork = {
  call<T>(call: Call<T>, signal: AbortSignal): Promise<T>;
  /** A peer that is down answers nothing; `refuses`: at once, rather than by silence. */
  setDown(peer: Peer, down: false | "silent" | "refuses"): void;
  setWeather(peer: Peer, weather: Weather): void;
};

export type SimNetworkOptions = {
  readonly clock: SimClock;
  readonly prng: Prng;
  readonly history: History;
};

export function createSimNetwork({ clock, prng, history }: SimNetworkOptions): SimNetwork {
  const down = new Map<Peer, "silent" | "refuses">();
  const weathers = new Map<Peer, Weather>();

  const weatherOf = ({ to, what }: Pick<Call<unknown>, "to" | "what">): Weather => {
    const weather = weathers.get(to) ?? calm;
    return weather.only === undefined || what.startsWith(weather.only) ? weather : calm;
  };
  const latency = ({ slow, slowMs }: Weather) =>
    prng.chance(slow) ? prng.between(50, slowMs) : prng.between(1, 8);

  /** What the caller gets to know, at most once. */
  const settler = <T>(call: Call<T>, signal: AbortSignal, waiting: PromiseWithResolvers<T>) => {
    let settled = false;
    const settle = (how: () => void) => {
      call.from.deliver(() => {
        if (settled) return;
        settled = true;
        cancelTimeout();
        signal.removeEventListener("abort", abort);
        how();
      });
    };
    const fail = (why: string) => {
      settle(() => waiting.reject(call.lost(why)));
    };
    const abort = () => {
      settle(() => waiting.reject(signal.reason));
    };
    const cancelTimeout = clock.after(call.timeoutMs, () => fail("no answer in time"));
    signal.addEventListener("abort", abort, { once: true });
    return { settle, fail, isSettled: () => settled };
  };

  const call = <T>(asked: Call<T>, signal: AbortSignal): Promise<T> => {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const waiting = Promise.withResolvers<T>();
    const weather = weatherOf(asked);
    const { settle, fail, isSettled } = settler(asked, signal, waiting);
    const lost = (what: string) => history.note(`${asked.from.name} ${asked.what}: ${what}`);

    const travelBack = (answer: Promise<T>) => {
      const ms = latency(weather);
      const back = (how: () => void) => {
        clock.after(ms, () => settle(how));
      };
      answer.then(
        (value) => back(() => waiting.resolve(value)),
        (error: unknown) => back(() => waiting.reject(error)),
      );
    };
    const arrive = () => {
      const outage = down.get(asked.to);
      if (outage === "refuses") return fail("connection refused");
      if (outage === "silent") return;
      if (prng.chance(weather.lostRequest)) return lost("request lost");
      const answer = startedOutcome(asked.effect, isSettled());
      if (asked.once !== true && prng.chance(weather.repeated)) {
        lost("repeated on the way");
        void startedOutcome(asked.effect, isSettled());
      }
      if (!prng.chance(weather.lostAnswer)) return travelBack(answer);
      lost("answer lost");
      if (prng.chance(0.5)) clock.after(latency(weather), () => fail("connection reset"));
    };
    clock.after(latency(weather), arrive);
    return waiting.promise;
  };

  return {
    call,
    setDown: (peer, how) => {
      if (how === false) down.delete(peer);
      else down.set(peer, how);
    },
    setWeather: (peer, weather) => void weathers.set(peer, weather),
  };
}

async function outcomeOf<T>(effect: Call<T>["effect"], late: boolean): Promise<T> {
  return effect(late);
}

/** One that is repeated or lost on the way has nobody who listens. */
function startedOutcome<T>(effect: Call<T>["effect"], late: boolean): Promise<T> {
  const outcome = outcomeOf(effect, late);
  outcome.catch(() => undefined);
  return outcome;
}

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
};

export const calm: Weather = { lostRequest: 0, lostAnswer: 0, repeated: 0, slow: 0, slowMs: 0 };

export type Call<T> = {
  readonly from: SimProcess;
  readonly to: Peer;
  /** For the history. */
  readonly what: string;
  /** How long the caller's client waits for an answer. */
  readonly timeoutMs: number;
  /** What the peer does; what it throws is its answer too. A promise that never settles is no answer. */
  readonly effect: () => T | Promise<T>;
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

export function createSimNetwork(options: {
  readonly clock: SimClock;
  readonly prng: Prng;
  readonly note: (text: string) => void;
}): SimNetwork {
  const { clock, prng, note } = options;
  const down = new Map<Peer, "silent" | "refuses">();
  const weathers = new Map<Peer, Weather>();

  const latency = ({ slow, slowMs }: Weather) =>
    prng.chance(slow) ? prng.between(50, slowMs) : prng.between(1, 8);

  return {
    setDown: (peer, how) => {
      if (how === false) down.delete(peer);
      else down.set(peer, how);
    },
    setWeather: (peer, weather) => void weathers.set(peer, weather),
    call: <T>(call: Call<T>, signal: AbortSignal) =>
      new Promise<T>((resolve, reject) => {
        const { from, to, what } = call;
        if (signal.aborted) {
          reject(signal.reason as Error);
          return;
        }
        const weather = weathers.get(to) ?? calm;
        let settled = false;
        const settle = (how: () => void) => {
          from.deliver(() => {
            if (settled) return;
            settled = true;
            cancelTimeout();
            signal.removeEventListener("abort", abort);
            how();
          });
        };
        const fail = (why: string) => {
          settle(() => reject(call.lost(why)));
        };
        const abort = () => {
          settle(() => reject(signal.reason as Error));
        };
        const cancelTimeout = clock.after(call.timeoutMs, () => fail("no answer in time"));
        signal.addEventListener("abort", abort, { once: true });

        clock.after(latency(weather), () => {
          const how = down.get(to);
          if (how === "refuses") return fail("connection refused");
          if (how === "silent") return;
          if (prng.chance(weather.lostRequest)) return note(`${from.name} ${what}: request lost`);
          const answer = outcomeOf(call.effect);
          if (call.once !== true && prng.chance(weather.repeated)) {
            note(`${from.name} ${what}: repeated on the way`);
            outcomeOf(call.effect);
          }
          if (prng.chance(weather.lostAnswer)) {
            note(`${from.name} ${what}: answer lost`);
            if (prng.chance(0.5)) clock.after(latency(weather), () => fail("connection reset"));
            return;
          }
          const travels = latency(weather);
          const back = (how: () => void) => {
            clock.after(travels, () => settle(how));
          };
          if (!answer.ok) back(() => reject(answer.error as Error));
          else if (answer.value instanceof Promise)
            answer.value.then(
              (value) => back(() => resolve(value)),
              (error: unknown) => back(() => reject(error as Error)),
            );
          else {
            const { value } = answer;
            back(() => resolve(value));
          }
        });
      }),
  };
}

type Outcome<T> =
  { readonly ok: true; readonly value: T | Promise<T> } | { readonly ok: false; readonly error: unknown };

function outcomeOf<T>(effect: () => T | Promise<T>): Outcome<T> {
  try {
    const value = effect();
    // One that is repeated or lost on the way has nobody who listens.
    if (value instanceof Promise) value.catch(() => undefined);
    return { ok: true, value };
  } catch (error) {
    return { ok: false, error };
  }
}

import type { SteadyClock } from "../../platform/clock.ts";
import type { VmTimes } from "./vm-options.ts";

/** What is known of the creates of one attempt. The server makes as many VMs as it is asked for. */
export type Asked =
  /** Nothing that was asked for can still come. */
  | { readonly kind: "nothing" }
  /** One may still come, until then by the steady clock. */
  | { readonly kind: "open"; readonly until: number }
  /** It was looked for long enough, and is never asked for again: should it come after all, it is a lost attempt's. */
  | { readonly kind: "given up" };

/** In memory only: what an earlier controller asked for whoever asks again has to tell. */
export type AskedFor = {
  /** What is known now. `mayBeUnderWay`: somebody else may have asked for it, if we have not. */
  of(name: string, mayBeUnderWay: boolean): Asked;
  /** It is being asked for. */
  sent(name: string): void;
  /** There was no answer that tells. */
  leftOpen(name: string): void;
  /** It is there, or certainly not. */
  settled(name: string): void;
  givenUp(name: string): void;
  /** Whether one may still come. */
  mayCome(name: string): boolean;
};

const mostNames = 1_000;

export function createAskedFor(
  { createWindowMs }: Pick<VmTimes, "createWindowMs">,
  steady: SteadyClock,
): AskedFor {
  const names = new Map<string, Asked>();
  const put = (name: string, asked: Asked): Asked => {
    names.delete(name);
    names.set(name, asked);
    const [oldest] = names.keys();
    if (names.size > mostNames && oldest !== undefined) names.delete(oldest);
    return asked;
  };
  const window = (): Asked => ({ kind: "open", until: steady() + createWindowMs });
  return {
    of: (name, mayBeUnderWay) => names.get(name) ?? put(name, mayBeUnderWay ? window() : { kind: "nothing" }),
    sent: (name) => {
      put(name, { kind: "open", until: Infinity });
    },
    leftOpen: (name) => {
      put(name, window());
    },
    settled: (name) => {
      put(name, { kind: "nothing" });
    },
    givenUp: (name) => {
      put(name, { kind: "given up" });
    },
    mayCome: (name) => {
      const asked = names.get(name);
      return asked?.kind === "open" && steady() < asked.until;
    },
  };
}

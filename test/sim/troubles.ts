import type { Peer } from "./sim-network.ts";

/** What is not as it should be: a peer that does not answer as it should, no controller that serves, a clock. */
export type Trouble = Peer | "leader" | "log-store" | "stream" | "bucket" | "cluster" | "executor" | "clock";

/** What happens in no time is nevertheless trouble, of so many milliseconds. */
export const moment = 1;

/** When there was trouble, in milliseconds since the epoch: what was late, or failed, may have its cause there. */
export type Troubles = {
  /** Begins now; the answer ends it. */
  begin(what: Trouble): () => void;
  /** Begins now and lasts for so long. */
  last(what: Trouble, ms: number): void;
  /** For how many milliseconds between the two times there was any of these; of anything, without a list. */
  during(from: number, to: number, what?: readonly Trouble[]): number;
};

type Span = { readonly what: Trouble; readonly from: number; to: number };

export function createTroubles(clock: { now(): number }): Troubles {
  const spans: Span[] = [];
  const add = (what: Trouble, ms: number): Span => {
    const span = { what, from: clock.now(), to: clock.now() + ms };
    spans.push(span);
    return span;
  };
  return {
    begin: (what) => {
      const span = add(what, Infinity);
      return () => {
        span.to = Math.min(span.to, clock.now());
      };
    },
    last: (what, ms) => void add(what, ms),
    during: (from, to, wanted) => {
      const mine = spans
        .filter(({ what }) => wanted === undefined || wanted.includes(what))
        .map((span) => ({ from: Math.max(from, span.from), to: Math.min(to, span.to) }))
        .filter((span) => span.to >= span.from && span.to >= from && span.from <= to)
        .toSorted((a, b) => a.from - b.from);
      let sum = 0;
      let covered = from;
      for (const span of mine) {
        sum += Math.max(0, span.to - Math.max(covered, span.from));
        covered = Math.max(covered, span.to);
      }
      return sum;
    },
  };
}

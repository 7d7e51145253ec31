import { planOfSeed } from "./random-plan.ts";
import { calm } from "./sim-network.ts";
import { after, minutes, planOf, push, type Scenario, seconds } from "./scenario.ts";

type Kept = {
  /** What was wrong. */
  readonly was: string;
  readonly plan: Scenario["plan"];
};

/**
 * Each fault that was found, as the smallest plan that showed it; or as the seed, where a small plan does not: a seed
 * stands for another plan as soon as the plans of seeds are made otherwise.
 */
const all: readonly Kept[] = [
  {
    was: "the slot of an executor that was made just now went to another job, since an older list lacked it (I3)",
    plan: planOf(
      [
        push(0, 1 * seconds, { ms: 2 * minutes }),
        { at: 20 * seconds, do: "stale-lists", backend: "pod", staleMs: 9 * seconds, ms: 2 * minutes },
        push(1, 21 * seconds),
        push(2, 21.5 * seconds),
      ],
      2,
    ),
  },
  {
    was: "the last rows were lost of a job at whose end Gitea was away for 8 min, though its executor had them (I11)",
    plan: planOf([
      push(0, 1 * seconds, { steps: [2, 4, 3].map((rows) => ({ ms: 40 * seconds, rows })) }),
      { at: after(0, "ran", 119 * seconds), do: "down", peer: "gitea", how: "silent", ms: 8 * minutes },
    ]),
  },
  {
    was: "nobody spoke for a task whose record was stored by a leader that had just been deposed, the queue being away",
    plan: planOf([
      push(0, 1 * seconds, { ms: 30 * seconds }),
      push(1, 2 * seconds, { ms: 2 * minutes }),
      { at: 20 * seconds, do: "pause", ms: 60 * seconds, wakesForMs: 300 },
      push(2, 50 * seconds),
      push(3, 55 * seconds),
      { at: 80.4 * seconds, do: "down", peer: "queue", how: "silent", ms: 12 * minutes },
    ]),
  },
  {
    was: "a message that was stored anew after a loss of the stream's end got lost again, unseen (I10)",
    plan: planOf([
      push(0, 1 * seconds, { ms: 5 * minutes }),
      push(1, 2 * seconds),
      { at: 50 * seconds, do: "lose-tail", count: 1 },
      { at: 75 * seconds, do: "lose-tail", count: 1 },
    ]),
  },
  {
    was: "the stream was as it had been at the last complete look, and a loss since then was not looked for (I10)",
    plan: planOf([
      push(0, 1 * seconds, { ms: 5 * minutes }),
      push(1, 35 * seconds),
      { at: 55 * seconds, do: "lose-tail", count: 1 },
    ]),
  },
  {
    was: "a fetcher whose publishes were never answered went on beating for its task after the claim: steps ran again",
    plan: planOf([
      push(0, 1 * seconds, { steps: [1, 1, 1, 1].map((rows) => ({ ms: 15 * seconds, rows })) }),
      {
        at: after(0, "fetched"),
        do: "weather",
        peer: "queue",
        weather: { ...calm, lostAnswer: 1, only: "publish" },
        ms: 2 * minutes,
      },
    ]),
  },
  {
    was: "a slot that was restored for an attempt whose create had been refused made an executor too many (I3)",
    plan: planOf(
      [
        // Both are refused; when there is room, the first is retried at 61 s, the second would be at 74 s.
        {
          at: 0,
          do: "refuse-creates",
          backend: "pod",
          kind: "retryable",
          reason: "quota",
          ms: 60.5 * seconds,
        },
        push(0, 1 * seconds, { ms: 2 * minutes }),
        push(1, 14 * seconds, { ms: 2 * minutes }),
        push(2, 30 * seconds, { ms: 2 * minutes }),
        { at: after(0, "claimed", 500), do: "upgrade" },
      ],
      2,
    ),
  },
  {
    was: "a record was written again by a leader that had been deposed, and stayed for ever",
    plan: planOfSeed(371),
  },
];

/** They have to hold all invariants, and no more than that. */
export const kept: readonly Scenario[] = all.map(({ was, plan }) => ({
  name: was,
  plan,
  check: () => undefined,
}));

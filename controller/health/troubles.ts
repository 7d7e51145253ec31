import type { Clock } from "../platform/clock.ts";
import type { Check } from "./health-server.ts";

/** What can be wrong with the whole controller while all of its loops go round: a closed set, for checks and metrics. */
export const troubleKinds = [
  // Executors have the SVID of their job, but CAPABILITY_KEY_FILE lacks the key of their capability.
  "capability",
  // A queued task is sealed with a key that CAPABILITY_KEY_FILE lacks.
  "unknown-key",
  // The state bucket holds something that cannot be read where a record belongs, or held it and keeps it for a person.
  "unreadable-record",
  // Gitea does not know our registration any more.
  "unregistered",
] as const;
export type TroubleKind = (typeof troubleKinds)[number];

export type Trouble = {
  readonly kind: TroubleKind;
  /** Tells troubles of one kind apart, such as an assignment's id; shown nowhere. Not given if there is one only. */
  readonly about?: string;
  /** For the operator: what is wrong. No id and no name, because whoever reaches the health port reads it. */
  readonly reason: string;
  /** Milliseconds after which it is over unless it is reported again: for trouble of whose end nobody tells us. */
  readonly lastsMs?: number;
};

export type StandingTrouble = {
  readonly kind: TroubleKind;
  readonly reason: string;
  /** Of its first report, in milliseconds since the epoch. */
  readonly since: number;
};

/** Parts report their troubles here; health and metrics read what stands. It decides nothing and acts on nothing. */
export type TroubleBoard = {
  /** Stands from now on, or goes on to stand: then with its first `since`. */
  report(trouble: Trouble): void;
  /** Takes it off; one that does not stand is no error. */
  over(kind: TroubleKind, about?: string): void;
  /** The oldest first. */
  standing(): readonly StandingTrouble[];
};

export function createTroubleBoard(clock: Pick<Clock, "now">): TroubleBoard {
  const board = new Map<string, StandingTrouble & { readonly endsAt: number }>();
  const clear = () => {
    for (const [key, { endsAt }] of board) if (clock.now() >= endsAt) board.delete(key);
  };
  return {
    report: ({ kind, about, reason, lastsMs = Infinity }) => {
      clear();
      const key = keyOf(kind, about);
      const since = board.get(key)?.since ?? clock.now();
      board.set(key, { kind, reason, since, endsAt: clock.now() + lastsMs });
    },
    over: (kind, about) => void board.delete(keyOf(kind, about)),
    standing: () => {
      clear();
      return [...board.values()].map(({ kind, reason, since }) => ({ kind, reason, since }));
    },
  };
}

/** A check for each kind: one line about all troubles of it that stand. */
export function troubleChecks({ standing }: Pick<TroubleBoard, "standing">): readonly Check[] {
  return troubleKinds.map((name) => ({
    name,
    problem: () => {
      const [oldest, ...more] = standing().filter(({ kind }) => kind === name);
      if (oldest === undefined) return undefined;
      const others = more.length === 0 ? "" : `, and ${more.length} more like it`;
      return `${oldest.reason}, since ${new Date(oldest.since).toISOString()}${others}`;
    },
  }));
}

/** How many stand of each kind. */
export function countTroubles({
  standing,
}: Pick<TroubleBoard, "standing">): Readonly<Record<string, number>> {
  const kinds = standing().map(({ kind }) => kind);
  return Object.fromEntries(troubleKinds.map((name) => [name, kinds.filter((one) => one === name).length]));
}

function keyOf(kind: TroubleKind, about = ""): string {
  return `${kind} ${about}`;
}

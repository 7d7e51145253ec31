import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { Prng } from "./prng.ts";
import type { SimJob } from "./sim-executor.ts";
import type { Peer, Weather } from "./sim-network.ts";

/** Something that a person or the world does, `at` milliseconds after the start. */
export type Incident = { readonly at: number } & (
  | { readonly do: "push"; readonly job: number; readonly backend: BackendKind; readonly work: SimJob }
  | { readonly do: "cancel"; readonly job: number }
  /** SIGKILL of the leader; a new one starts that much later. */
  | { readonly do: "crash"; readonly restartMs: number }
  /** SIGTERM of the leader; a new one starts when it has stopped leading. */
  | { readonly do: "upgrade" }
  /** The leader is stopped; another one takes over; the first wakes up and goes on for a moment. */
  | { readonly do: "pause"; readonly ms: number; readonly wakesForMs: number }
  /** The lease cannot be renewed for this long, and nobody else takes it. */
  | { readonly do: "lose-lease"; readonly ms: number }
  | { readonly do: "down"; readonly peer: Peer; readonly how: "silent" | "refuses"; readonly ms: number }
  | { readonly do: "weather"; readonly peer: Peer; readonly weather: Weather; readonly ms: number }
  | { readonly do: "log-store"; readonly ms: number }
  | { readonly do: "lose-stream" }
  | { readonly do: "lose-tail"; readonly count: number }
  | { readonly do: "restore-stream"; readonly ageMs: number }
  | { readonly do: "lose-bucket"; readonly anewMs: number }
  | { readonly do: "wrong-keys"; readonly ms: number }
  | { readonly do: "clock-step"; readonly ms: number }
  | {
      readonly do: "stale-lists";
      readonly backend: BackendKind;
      readonly staleMs: number;
      readonly ms: number;
    }
  | {
      readonly do: "late-creates";
      readonly backend: BackendKind;
      readonly lateMs: number;
      readonly ms: number;
    }
  | { readonly do: "linger"; readonly backend: BackendKind; readonly lingerMs: number; readonly ms: number }
  | { readonly do: "bad-starts"; readonly backend: BackendKind; readonly ms: number }
  | {
      readonly do: "refuse-creates";
      readonly backend: BackendKind;
      readonly kind: "retryable" | "terminal";
      readonly reason: FailureReason;
      readonly ms: number;
    }
  | { readonly do: "end-executor"; readonly nth: number; readonly cause: FailureReason }
  | { readonly do: "vanish-executor"; readonly nth: number }
  | { readonly do: "stop-executor"; readonly nth: number; readonly ms: number }
);

/** A run of the simulation, told beforehand: it can be made smaller and run again. */
export type Plan = {
  readonly seed: number;
  /** Nothing in it may fail a job: what comes must be borne. */
  readonly gentle: boolean;
  readonly capacity: Readonly<Record<BackendKind, number>>;
  readonly incidents: readonly Incident[];
};

/** How long incidents happen; then the world is well again and everything has to come to an end. */
export const incidentMs = 60_000;

const light: Weather = { lostRequest: 0.02, lostAnswer: 0.03, repeated: 0.02, slow: 0.1, slowMs: 400 };
const heavy: Weather = { lostRequest: 0.15, lostAnswer: 0.15, repeated: 0.1, slow: 0.4, slowMs: 1_500 };

/** What a seed has in store. Half of the seeds are gentle. */
export function planOf(seed: number, prng: Prng): Plan {
  const gentle = prng.chance(0.5);
  const capacity = { pod: prng.between(1, 4), vm: prng.between(1, 2) };
  const pushes = Array.from({ length: prng.between(2, 8) }, (_, job) => push(job, prng));
  const makers = gentle ? gentleIncidents : [...gentleIncidents, ...roughIncidents];
  const troubles = Array.from({ length: prng.between(1, gentle ? 5 : 7) }, () => {
    const at = prng.between(0, incidentMs);
    return prng.pick(makers)(at, prng, pushes.length);
  });
  const incidents = [...pushes, ...troubles].toSorted((a, b) => a.at - b.at);
  return { seed, gentle, capacity, incidents };
}

function push(job: number, prng: Prng): Incident {
  const steps = Array.from({ length: prng.between(1, 3) }, () => ({
    ms: prng.between(50, 6_000),
    rows: prng.between(1, 4),
  }));
  return {
    at: prng.between(0, incidentMs / 2),
    do: "push",
    job,
    backend: prng.chance(0.7) ? "pod" : "vm",
    work: { steps, postMs: prng.between(10, 3_000) },
  };
}

type Maker = (at: number, prng: Prng, jobs: number) => Incident;

const backendOf = (prng: Prng): BackendKind => (prng.chance(0.7) ? "pod" : "vm");

const gentleIncidents: readonly Maker[] = [
  (at, prng) => ({ at, do: "crash", restartMs: prng.between(10, 3_000) }),
  (at, prng) => ({ at, do: "crash", restartMs: prng.between(10, 3_000) }),
  (at) => ({ at, do: "upgrade" }),
  (at, prng) => ({ at, do: "pause", ms: prng.between(1_500, 6_000), wakesForMs: prng.between(1, 300) }),
  (at, prng) => ({ at, do: "lose-lease", ms: prng.between(500, 6_000) }),
  (at, prng) => ({
    at,
    do: "down",
    peer: prng.pick(["gitea", "queue", "records", "backend", "facade"]),
    how: prng.pick(["silent", "refuses"]),
    ms: prng.between(100, 10_000),
  }),
  (at, prng) => ({
    at,
    do: "weather",
    peer: prng.pick(["queue", "records", "backend", "facade"]),
    weather: prng.chance(0.5) ? light : heavy,
    ms: prng.between(1_000, 15_000),
  }),
  (at, prng) => ({ at, do: "cancel", job: prng.between(0, 7) }),
  (at, prng) => ({ at, do: "log-store", ms: prng.between(1_000, 60_000) }),
  (at) => ({ at, do: "lose-stream" }),
  (at, prng) => ({ at, do: "lose-tail", count: prng.between(1, 3) }),
  (at, prng) => ({ at, do: "restore-stream", ageMs: prng.between(1_000, 20_000) }),
  (at, prng) => ({ at, do: "lose-bucket", anewMs: prng.between(10, 3_000) }),
  (at, prng) => ({ at, do: "clock-step", ms: prng.pick([-2_000, -300, 300, 2_000]) }),
  (at, prng) => ({
    at,
    do: "stale-lists",
    backend: backendOf(prng),
    staleMs: prng.between(100, 2_000),
    ms: prng.between(1_000, 20_000),
  }),
  (at, prng) => ({
    at,
    do: "late-creates",
    backend: backendOf(prng),
    lateMs: prng.between(200, 6_000),
    ms: prng.between(1_000, 20_000),
  }),
  (at, prng) => ({
    at,
    do: "linger",
    backend: backendOf(prng),
    lingerMs: prng.between(500, 10_000),
    ms: prng.between(1_000, 20_000),
  }),
];

const roughIncidents: readonly Maker[] = [
  (at, prng) => ({
    at,
    do: "weather",
    peer: "gitea",
    weather: prng.chance(0.5) ? light : heavy,
    ms: prng.between(1_000, 20_000),
  }),
  (at, prng) => ({
    at,
    do: "down",
    peer: prng.pick(["gitea", "queue", "records", "backend", "facade"]),
    how: prng.pick(["silent", "refuses"]),
    ms: prng.between(10_000, 100_000),
  }),
  (at, prng) => ({ at, do: "wrong-keys", ms: prng.between(1_000, 20_000) }),
  (at, prng) => ({ at, do: "bad-starts", backend: backendOf(prng), ms: prng.between(1_000, 20_000) }),
  (at, prng) => ({
    at,
    do: "refuse-creates",
    backend: backendOf(prng),
    ...prng.pick([
      { kind: "retryable", reason: "quota" } as const,
      { kind: "retryable", reason: "backend_down" } as const,
      { kind: "terminal", reason: "image_invalid" } as const,
    ]),
    ms: prng.between(1_000, 20_000),
  }),
  (at, prng) => ({
    at,
    do: "end-executor",
    nth: prng.between(0, 5),
    cause: prng.pick(["oom", "evicted", "node_lost", "killed"] as const),
  }),
  (at, prng) => ({ at, do: "vanish-executor", nth: prng.between(0, 5) }),
  (at, prng) => ({ at, do: "stop-executor", nth: prng.between(0, 5), ms: prng.between(5_000, 60_000) }),
];

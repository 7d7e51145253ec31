import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import { intruderKinds } from "./intruder.ts";
import type { Happening, Incident, Plan } from "./plan.ts";
import { createPrng, type Prng } from "./prng.ts";
import type { Weather } from "./sim-network.ts";

/** Jobs are pushed in the first half of this, incidents come in all of it. */
const incidentMs = 10 * 60_000;

const light: Weather = { lostRequest: 0.02, lostAnswer: 0.03, repeated: 0.02, slow: 0.1, slowMs: 4_000 };
const heavy: Weather = { lostRequest: 0.15, lostAnswer: 0.15, repeated: 0.1, slow: 0.4, slowMs: 15_000 };

/** What a seed has in store: some jobs, and troubles that come one by one or together. */
export function planOfSeed(seed: number): Plan {
  const prng = createPrng(seed).fork("plan");
  // Half of the seeds have nothing in store that may fail a job.
  const makers = prng.chance(0.5) ? mild : [...mild, ...rough];
  const capacity = { pod: prng.between(1, 4), vm: prng.between(1, 2) };
  const pushes = Array.from({ length: prng.between(2, 8) }, (_, job) => push(job, prng));
  const troubles = Array.from({ length: prng.between(1, 6) }, () => ({
    at: prng.between(0, incidentMs),
    ...prng.pick(makers)(prng),
  }));
  const incidents = [...pushes, ...troubles].toSorted((a, b) => a.at - b.at);
  return { seed, capacity, incidents };
}

function push(job: number, prng: Prng): Incident & { readonly at: number } {
  const steps = Array.from({ length: prng.between(1, 3) }, () => ({
    ms: prng.between(500, 60_000),
    rows: prng.between(1, 4),
  }));
  return {
    at: prng.between(0, incidentMs / 2),
    do: "push",
    job,
    backend: backendOf(prng),
    work: { steps, postMs: prng.between(100, 30_000) },
  };
}

type Maker = (prng: Prng) => Happening;

const backendOf = (prng: Prng): BackendKind => (prng.chance(0.7) ? "pod" : "vm");
const seconds = (prng: Prng, low: number, high: number) => prng.between(low * 1_000, high * 1_000);

/** What comes of these must be borne. */
const mild: readonly Maker[] = [
  (prng) => ({ do: "crash", restartMs: seconds(prng, 0, 30) }),
  (prng) => ({ do: "crash", restartMs: seconds(prng, 0, 30) }),
  () => ({ do: "upgrade" }),
  (prng) => ({ do: "pause", ms: seconds(prng, 16, 60), wakesForMs: prng.between(1, 300) }),
  (prng) => ({ do: "lose-lease", ms: seconds(prng, 5, 60) }),
  (prng) => ({ do: "wrong-keys", ms: seconds(prng, 10, 100) }),
  (prng) => ({
    do: "down",
    peer: prng.pick(["gitea", "queue", "records", "backend", "facade"]),
    how: prng.pick(["silent", "refuses"]),
    ms: seconds(prng, 1, 100),
  }),
  (prng) => ({
    do: "weather",
    peer: prng.pick(["queue", "records", "backend", "facade"]),
    weather: prng.chance(0.5) ? light : heavy,
    ms: seconds(prng, 10, 150),
  }),
  (prng) => ({ do: "cancel", job: prng.between(0, 7) }),
  (prng) => ({ do: "log-store", ms: seconds(prng, 10, 600) }),
  () => ({ do: "lose-stream" }),
  (prng) => ({ do: "lose-tail", count: prng.between(1, 3) }),
  (prng) => ({ do: "restore-stream", ageMs: seconds(prng, 10, 200) }),
  (prng) => ({ do: "lose-bucket", anewMs: seconds(prng, 0, 30) }),
  (prng) => ({ do: "clock-step", ms: prng.pick([-20_000, -3_000, 3_000, 20_000]) }),
  (prng) => ({
    do: "stale-lists",
    backend: backendOf(prng),
    staleMs: seconds(prng, 1, 20),
    ms: seconds(prng, 10, 200),
  }),
  (prng) => ({
    do: "late-creates",
    backend: backendOf(prng),
    chance: 0.7,
    lateMs: seconds(prng, 2, 60),
    ms: seconds(prng, 10, 200),
  }),
  (prng) => ({
    do: "linger",
    backend: backendOf(prng),
    lingerMs: seconds(prng, 5, 100),
    ms: seconds(prng, 10, 200),
  }),
  (prng) => ({ do: "start-again", nth: prng.between(0, 7) }),
  (prng) => ({ do: "intrude", nth: prng.between(0, 7), as: prng.pick(intruderKinds) }),
];

/** These may cost jobs: each its own, for its own reason. */
const rough: readonly Maker[] = [
  (prng) => ({
    do: "weather",
    peer: "gitea",
    weather: prng.chance(0.5) ? light : heavy,
    ms: seconds(prng, 10, 200),
  }),
  (prng) => ({
    do: "down",
    peer: prng.pick(["gitea", "queue", "records", "backend", "facade"]),
    how: prng.pick(["silent", "refuses"]),
    ms: seconds(prng, 100, 1_000),
  }),
  (prng) => ({
    do: "bad-starts",
    backend: backendOf(prng),
    chance: prng.pick([0.5, 1]),
    ms: seconds(prng, 10, 200),
  }),
  (prng) => ({
    do: "refuse-creates",
    backend: backendOf(prng),
    ...prng.pick([
      { kind: "retryable", reason: "quota" } as const,
      { kind: "retryable", reason: "backend_down" } as const,
      { kind: "terminal", reason: "image_invalid" } as const,
    ]),
    ms: seconds(prng, 10, 200),
  }),
  (prng) => ({
    do: "end-executor",
    nth: prng.between(0, 7),
    cause: prng.pick(["oom", "evicted", "node_lost", "killed"] as const),
  }),
  (prng) => ({ do: "vanish-executor", nth: prng.between(0, 7) }),
  (prng) => ({ do: "ghost-executor", nth: prng.between(0, 7) }),
  (prng) => ({ do: "stop-executor", nth: prng.between(0, 7), ms: seconds(prng, 20, 600) }),
];

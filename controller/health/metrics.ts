import { Counter, Gauge, Registry } from "prom-client";
import type { BackendState } from "./backend-checks.ts";

/** What is counted and measured, in the text format of Prometheus. Label values are closed sets, never ids. */
export type Metrics = {
  callerRefused(reason: string): void;
  render(): Promise<{ readonly contentType: string; readonly text: string }>;
};

type Counts = () => Readonly<Record<string, number>>;

export type MetricSources = {
  /** All values that `callerRefused` is called with: those that never occurred are there, with 0. */
  readonly refusals: readonly string[];
  /** Whether this process leads now. */
  readonly leads: () => boolean;
  readonly facadeSessions: () => number;
  readonly backends: () => readonly BackendState[];
  /** How many assignments are in each phase. */
  readonly phases: Counts;
  /** How many troubles stand, of each kind. */
  readonly troubles: Counts;
  /** Since the process began: jobs that we failed, and attempts that were lost, by reason. */
  readonly failures: Counts;
  readonly lostAttempts: Counts;
  /** Since the process began: calls of FetchTask that came to no answer. */
  readonly lostFetches: () => number;
  readonly events: () => { readonly waiting: number; readonly dropped: number };
  readonly natsConnected: () => boolean;
  /** Undefined while there was no answer yet. */
  readonly giteaSilenceSeconds: () => number | undefined;
};

/** Sources are asked anew for each scrape. controller/health/README.md says what each metric is for. */
export function createMetrics(sources: MetricSources): Metrics {
  const registry = new Registry();
  const { gauge, counter } = instruments(registry);
  const refused = new Counter({
    name: "runners_refused_callers_total",
    help: "Connections and calls to the facade that were refused.",
    labelNames: ["reason"],
    registers: [registry],
  });
  for (const reason of sources.refusals) refused.inc({ reason }, 0);
  gauge("runners_leader", "Whether this process leads.", () => one(sources.leads() ? 1 : 0));
  gauge("runners_facade_sessions", "Open sessions of executors.", () => one(sources.facadeSessions()));

  const perBackend = (name: string, help: string, value: (state: BackendState) => number | undefined) => {
    gauge(name, help, () => sources.backends().map((state) => [{ backend: state.backend }, value(state)]));
  };
  perBackend("runners_slots_used", "Executors that take a place of their backend.", ({ used }) => used);
  perBackend("runners_slots_capacity", "Places of each backend.", ({ capacity }) => capacity);
  perBackend(
    "runners_oldest_waiting_seconds",
    "How long the oldest task has waited that has no place yet.",
    ({ waitingMs }) => waitingMs / 1000,
  );
  perBackend("runners_circuit_open", "1 while the backend fails and nothing is created.", ({ circuit }) =>
    circuit === undefined ? 0 : 1,
  );
  perBackend("runners_backend_silence_seconds", "Since executors were listed.", ({ silentMs }) =>
    silentMs === undefined ? undefined : silentMs / 1000,
  );
  perBackend("runners_backend_view_age_seconds", "Since changes were heard of.", ({ viewAgeMs }) =>
    viewAgeMs === undefined ? undefined : viewAgeMs / 1000,
  );
  perBackend("runners_lingering_executors", "Executors that should be gone.", ({ lingering }) => lingering);
  perBackend("runners_invalid_executors", "Executors with unreadable metadata.", ({ invalid }) => invalid);

  gauge("runners_live_assignments", "Assignments that are not forgotten yet.", () =>
    by("phase", sources.phases()),
  );
  counter("runners_failures_total", "Jobs that were failed by us.", () => by("reason", sources.failures()));
  counter("runners_lost_attempts_total", "Executors that were lost before a claim.", () =>
    by("reason", sources.lostAttempts()),
  );
  counter("runners_lost_fetches_total", "Calls of FetchTask that came to no answer.", () =>
    one(sources.lostFetches()),
  );
  gauge("runners_troubles", "What stands against /healthz, loops and backends aside.", () =>
    by("kind", sources.troubles()),
  );
  gauge("runners_events_waiting", "Events that are not stored yet.", () => one(sources.events().waiting));
  counter("runners_events_dropped_total", "Events that were lost.", () => one(sources.events().dropped));
  gauge("runners_nats_connected", "Whether NATS is connected.", () => one(sources.natsConnected() ? 1 : 0));
  gauge("runners_gitea_silence_seconds", "Since Gitea last answered a call.", () =>
    one(sources.giteaSilenceSeconds()),
  );
  return {
    callerRefused: (reason) => {
      refused.inc({ reason });
    },
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

/** A value, with its label if it has one; undefined for none, rather than one that looks like an answer. */
type Sample = readonly [Readonly<Record<string, string>>, number | undefined];

function one(value: number | undefined): readonly Sample[] {
  return [[{}, value]];
}

function by(label: string, counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).map(([name, count]) => [{ [label]: name }, count]);
}

function instruments(registry: Registry) {
  const registers = [registry];
  const labelNames = ["backend", "phase", "reason", "kind"];
  return {
    gauge: (name: string, help: string, samples: () => readonly Sample[]) =>
      new Gauge({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset();
          for (const [labels, value] of samples()) if (value !== undefined) this.set(labels, value);
        },
      }),
    /** Counted elsewhere; told as it is. */
    counter: (name: string, help: string, samples: () => readonly Sample[]) =>
      new Counter({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset();
          for (const [labels, value] of samples()) if (value !== undefined) this.inc(labels, value);
        },
      }),
  };
}

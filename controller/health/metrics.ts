import { Counter, Gauge, Registry } from "prom-client";

/** What is counted and measured, in the text format of Prometheus. Label values are closed sets, never ids. */
export type Metrics = {
  callerRefused(reason: string): void;
  render(): Promise<{ readonly contentType: string; readonly text: string }>;
};

export type MetricSources = {
  /** All values that `callerRefused` is called with: those that never occurred are there, with 0. */
  readonly refusals: readonly string[];
  readonly facadeSessions: () => number;
  readonly slots: () => readonly {
    readonly backend: string;
    readonly used: number;
    readonly capacity: number;
  }[];
  /** How many assignments are in each phase. */
  readonly phases: () => Readonly<Record<string, number>>;
  /** How many troubles stand, of each kind. */
  readonly troubles: () => Readonly<Record<string, number>>;
  /** Undefined while there was no answer yet. */
  readonly giteaSilenceSeconds: () => number | undefined;
};

/** Sources are asked anew for each scrape. */
export function createMetrics(sources: MetricSources): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const refused = new Counter({
    name: "runners_refused_callers_total",
    help: "Connections and calls to the facade that were refused.",
    labelNames: ["reason"],
    registers,
  });
  for (const reason of sources.refusals) refused.inc({ reason }, 0);
  const gauge = (name: string, help: string, collect: (gauge: Gauge) => void, ...labelNames: string[]) =>
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        collect(this);
      },
    });
  gauge("runners_facade_sessions", "Open sessions of executors.", (it) => it.set(sources.facadeSessions()));
  gauge(
    "runners_slots_used",
    "Executors that take a place of their backend.",
    (it) => {
      for (const { backend, used } of sources.slots()) it.set({ backend }, used);
    },
    "backend",
  );
  gauge(
    "runners_slots_capacity",
    "Places of each backend.",
    (it) => {
      for (const { backend, capacity } of sources.slots()) it.set({ backend }, capacity);
    },
    "backend",
  );
  gauge(
    "runners_live_assignments",
    "Assignments that are not forgotten yet.",
    (it) => {
      for (const [phase, count] of Object.entries(sources.phases())) it.set({ phase }, count);
    },
    "phase",
  );
  gauge(
    "runners_troubles",
    "What stands against /healthz, loops aside.",
    (it) => {
      for (const [kind, count] of Object.entries(sources.troubles())) it.set({ kind }, count);
    },
    "kind",
  );
  gauge("runners_gitea_silence_seconds", "Since Gitea last answered a call.", (it) => {
    const seconds = sources.giteaSilenceSeconds();
    // Without a value, rather than with one that looks like an answer.
    if (seconds === undefined) it.remove();
    else it.set(seconds);
  });
  return {
    callerRefused: (reason) => {
      refused.inc({ reason });
    },
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

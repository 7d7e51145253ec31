import type { Config } from "./config.ts";
import { callRefusals } from "./facade/refusal.ts";
import { type Check, serveHealth } from "./health/health-server.ts";
import { createMetrics } from "./health/metrics.ts";
import { countTroubles, type TroubleBoard, troubleChecks } from "./health/troubles.ts";
import type { Clock } from "./platform/clock.ts";
import { describeError } from "./platform/errors.ts";
import { leads, type Progress, svidProblem } from "./progress.ts";
import { peerRefusals } from "./spiffe/refused-peer.ts";

export type PagesOptions = {
  readonly listen: Config["healthListen"];
  readonly progress: Readonly<Progress>;
  readonly troubles: TroubleBoard;
  /** Milliseconds since the epoch; undefined before the first answer. */
  readonly giteaAnsweredAt: () => number | undefined;
  readonly clock: Pick<Clock, "now">;
};

export type Pages = AsyncDisposable & {
  /** For the metrics. */
  callerRefused(reason: string): void;
};

/** Health and metrics, from the very start on: who waits for a peer, or for its turn to lead, is alive. */
export async function openPages(options: PagesOptions): Promise<Pages> {
  const { listen, progress, troubles, giteaAnsweredAt, clock } = options;
  const figures = () => progress.reign?.core.figures;
  const metrics = createMetrics({
    refusals: [...peerRefusals, ...callRefusals],
    leads: () => leads(progress),
    facadeSessions: () => progress.reign?.tls?.sessions() ?? 0,
    backends: () => figures()?.backends() ?? [],
    phases: () => figures()?.phases() ?? {},
    troubles: () => countTroubles(troubles),
    failures: () => figures()?.failures() ?? {},
    lostAttempts: () => figures()?.lostAttempts() ?? {},
    lostFetches: () => figures()?.lostFetches() ?? 0,
    events: () => progress.events?.figures() ?? { waiting: 0, dropped: 0 },
    natsConnected: () => isConnected(progress),
    giteaSilenceSeconds: () => {
      const at = giteaAnsweredAt();
      return at === undefined ? undefined : (clock.now() - at) / 1000;
    },
  });
  const server = await serveHealth({
    alive: () => progress.reign?.core.alive ?? [],
    well: () => [...ownChecks(progress), ...(progress.reign?.core.well ?? []), ...troubleChecks(troubles)],
    ready: () => [{ name: "svid", problem: () => svidProblem(progress) }],
    metrics: () => metrics.render(),
    listen,
  });
  return {
    callerRefused: (reason) => {
      metrics.callerRefused(reason);
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function ownChecks(progress: Readonly<Progress>): readonly Check[] {
  return [
    {
      name: "start",
      problem: () => (progress.waitsFor === undefined ? undefined : `it waits for ${progress.waitsFor}`),
    },
    { name: "nats", problem: () => (isConnected(progress) ? undefined : "it is not connected") },
    { name: "lease", problem: () => whyNotLeading(progress) },
  ];
}

/** A controller whose turn has not come is well; one that has led and only passes on what others say is not. */
function whyNotLeading({ reign }: Readonly<Progress>): string | undefined {
  if (reign?.leadership.leading.aborted !== true) return undefined;
  return `nothing is begun, ended or decided here any more: ${describeError(reign.leadership.leading.reason)}`;
}

function isConnected({ connection }: Readonly<Progress>): boolean {
  return connection?.connected() === true;
}

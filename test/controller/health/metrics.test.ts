import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "mocha";
import { serveHealth } from "../../../controller/health/health-server.ts";
import type { BackendState } from "../../../controller/health/backend-checks.ts";
import { createMetrics, type MetricSources } from "../../../controller/health/metrics.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";

const well: Omit<BackendState, "backend"> = {
  used: 0,
  capacity: 1,
  waitingMs: 0,
  circuit: undefined,
  silentMs: undefined,
  viewAgeMs: undefined,
  lingering: 0,
  invalid: 0,
};
const troubled: Omit<BackendState, "backend"> = {
  used: 2,
  capacity: 4,
  waitingMs: 90_500,
  circuit: "nothing is created",
  silentMs: 3_000,
  viewAgeMs: 4_000,
  lingering: 1,
  invalid: 2,
};

const sources = (overrides: Partial<MetricSources> = {}): MetricSources => ({
  refusals: ["expired", "capability"],
  leads: () => true,
  facadeSessions: () => 3,
  backends: () => [
    { backend: "pod", ...troubled },
    { backend: "vm", ...well },
  ],
  phases: () => ({ queued: 5, starting: 0, claimed: 2, finished: 1 }),
  troubles: () => ({ capability: 2, unregistered: 0 }),
  failures: () => ({ oom: 3, silent: 0 }),
  lostAttempts: () => ({ oom: 0, start_oom: 1 }),
  lostFetches: () => 5,
  events: () => ({ waiting: 7, dropped: 8 }),
  natsConnected: () => true,
  giteaSilenceSeconds: () => 0.5,
  ...overrides,
});

/** The samples, without what describes them. */
async function samples(metrics: ReturnType<typeof createMetrics>): Promise<readonly string[]> {
  const { text } = await metrics.render();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

describe("metrics", () => {
  it("tell what the sources say at the moment of the scrape", async () => {
    let sessions = 3;
    const metrics = createMetrics(sources({ facadeSessions: () => sessions }));
    assert.deepEqual(await samples(metrics), [
      'runners_refused_callers_total{reason="expired"} 0',
      'runners_refused_callers_total{reason="capability"} 0',
      "runners_leader 1",
      "runners_facade_sessions 3",
      'runners_slots_used{backend="pod"} 2',
      'runners_slots_used{backend="vm"} 0',
      'runners_slots_capacity{backend="pod"} 4',
      'runners_slots_capacity{backend="vm"} 1',
      'runners_oldest_waiting_seconds{backend="pod"} 90.5',
      'runners_oldest_waiting_seconds{backend="vm"} 0',
      'runners_circuit_open{backend="pod"} 1',
      'runners_circuit_open{backend="vm"} 0',
      'runners_backend_silence_seconds{backend="pod"} 3',
      'runners_backend_view_age_seconds{backend="pod"} 4',
      'runners_lingering_executors{backend="pod"} 1',
      'runners_lingering_executors{backend="vm"} 0',
      'runners_invalid_executors{backend="pod"} 2',
      'runners_invalid_executors{backend="vm"} 0',
      'runners_live_assignments{phase="queued"} 5',
      'runners_live_assignments{phase="starting"} 0',
      'runners_live_assignments{phase="claimed"} 2',
      'runners_live_assignments{phase="finished"} 1',
      'runners_failures_total{reason="oom"} 3',
      'runners_failures_total{reason="silent"} 0',
      'runners_lost_attempts_total{reason="oom"} 0',
      'runners_lost_attempts_total{reason="start_oom"} 1',
      "runners_lost_fetches_total 5",
      'runners_troubles{kind="capability"} 2',
      'runners_troubles{kind="unregistered"} 0',
      "runners_events_waiting 7",
      "runners_events_dropped_total 8",
      "runners_nats_connected 1",
      "runners_gitea_silence_seconds 0.5",
    ]);
    sessions = 4;
    metrics.callerRefused("capability");
    const later = await samples(metrics);
    assert.ok(later.includes("runners_facade_sessions 4"));
    assert.ok(later.includes('runners_refused_callers_total{reason="capability"} 1'));
  });

  it("tell counts as they are, however often they are scraped", async () => {
    let failures: Readonly<Record<string, number>> = { oom: 3 };
    const metrics = createMetrics(sources({ failures: () => failures }));
    await samples(metrics);
    assert.ok((await samples(metrics)).includes('runners_failures_total{reason="oom"} 3'));
    failures = { oom: 4 };
    assert.ok((await samples(metrics)).includes('runners_failures_total{reason="oom"} 4'));
    assert.match((await metrics.render()).text, /^# TYPE runners_failures_total counter$/m);
  });

  it("are all in the README, and no other is", async () => {
    const readme = await readFile(`${import.meta.dirname}/../../../controller/health/README.md`, "utf8");
    const told = new Set(readme.match(/\brunners_[a-z_]+/g));
    const there = (await samples(createMetrics(sources()))).map((line) => line.split(/[{ ]/)[0] ?? "");
    assert.deepEqual([...told].toSorted(), [...new Set(there)].toSorted());
  });

  it("give no age of Gitea's last answer before there was one", async () => {
    const silent = await samples(createMetrics(sources({ giteaSilenceSeconds: () => undefined })));
    assert.equal(silent.filter((line) => line.includes("gitea_silence")).length, 0);
  });

  it("are served beside the checks, and a source that fails is an error of the scrape only", async () => {
    let broken = false;
    const metrics = createMetrics(
      sources({
        facadeSessions: () => {
          if (broken) throw new Error("zq7Pw3");
          return 1;
        },
      }),
    );
    const port = await freePort();
    await using _ = await serveHealth({
      alive: () => [],
      well: () => [],
      ready: () => [],
      metrics: () => metrics.render(),
      listen: { host: "127.0.0.1", port },
    });
    const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    const answer = await get("/metrics");
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
    assert.match(await answer.text(), /^runners_facade_sessions 1$/m);
    broken = true;
    const failed = await get("/metrics");
    assert.deepEqual([failed.status, await failed.text()], [500, "no metrics\n"]);
    assert.equal((await get("/healthz")).status, 200);
  });
});

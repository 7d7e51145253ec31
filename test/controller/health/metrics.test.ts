import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { serveHealth } from "../../../controller/health/health-server.ts";
import { createMetrics, type MetricSources } from "../../../controller/health/metrics.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";

const sources = (overrides: Partial<MetricSources> = {}): MetricSources => ({
  refusals: ["expired", "capability"],
  facadeSessions: () => 3,
  slots: () => [
    { backend: "pod", used: 2, capacity: 4 },
    { backend: "vm", used: 0, capacity: 1 },
  ],
  phases: () => ({ queued: 5, starting: 0, claimed: 2, finished: 1 }),
  troubles: () => ({ capability: 2, unregistered: 0 }),
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
      "runners_facade_sessions 3",
      'runners_slots_used{backend="pod"} 2',
      'runners_slots_used{backend="vm"} 0',
      'runners_slots_capacity{backend="pod"} 4',
      'runners_slots_capacity{backend="vm"} 1',
      'runners_live_assignments{phase="queued"} 5',
      'runners_live_assignments{phase="starting"} 0',
      'runners_live_assignments{phase="claimed"} 2',
      'runners_live_assignments{phase="finished"} 1',
      'runners_troubles{kind="capability"} 2',
      'runners_troubles{kind="unregistered"} 0',
      "runners_gitea_silence_seconds 0.5",
    ]);
    sessions = 4;
    metrics.callerRefused("capability");
    const later = await samples(metrics);
    assert.ok(later.includes("runners_facade_sessions 4"));
    assert.ok(later.includes('runners_refused_callers_total{reason="capability"} 1'));
  });

  it("give no age of Gitea's last answer before there was one", async () => {
    const silent = await samples(createMetrics(sources({ giteaSilenceSeconds: () => undefined })));
    assert.equal(silent.filter((line) => line.includes("silence")).length, 0);
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
      alive: [],
      well: [],
      ready: [],
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

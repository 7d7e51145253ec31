import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { systemClock } from "../../controller/platform/clock.ts";
import type { X509Svid } from "../../controller/spiffe/x509-svid.ts";
import { trustDomain } from "../../scripts/quick-start/identities.ts";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { eventually } from "../support/eventually.ts";
import type { ExecutorSeen } from "../support/executors.ts";
import { healthPages } from "../support/health-pages.ts";
import { type HeldSession, holdSession } from "../support/held-session.ts";
import { usePlatform } from "../support/platform.ts";
import type { PushedRun } from "../support/push-run.ts";
import { usePrintingJobs } from "../support/printing-jobs.ts";
import { spireOf } from "../support/real-spire.ts";

const { signal } = new AbortController();
/** In place of five minutes; longer than the agent is away when it comes back. */
const silenceMs = 40_000;

describe("an SVID of real SPIRE that expires while its session is open and its job runs", () => {
  if (!canGiveUids("SVIDs of real SPIRE that expire")) return;
  const real = usePlatform({
    spire: { svidTtlSeconds: 14 },
    controller: { RUNNER_TIMES: JSON.stringify({ silenceMs }) },
  });
  const { spire, entries, ours, stolenSvid } = spireOf(real);
  const { running, openGate, executors, renewed, assertComplete } = usePrintingJobs(real);
  const health = () => healthPages(real.platform.environment);
  const sessions = () => health().metric("runners_facade_sessions");

  const theOnly = async (): Promise<ExecutorSeen> => {
    const [executor, ...more] = await executors();
    assert.ok(executor !== undefined && more.length === 0);
    return executor;
  };
  const idOf = (repository: string) => `spiffe://${trustDomain}/ci/demo/${repository}/print-0`;
  /** A connection of its own with the executor's SVID of this moment, as whoever took it from there has. */
  const steal = async (repository: string): Promise<{ svid: X509Svid; session: HeldSession }> => {
    const { uid, name } = await theOnly();
    const svid = await stolenSvid(uid, idOf(repository));
    const assignment = /^gitea-task-\d+/.exec(name)?.[0] ?? "";
    const url = real.platform.environment["RUNNER_FACADE_URL"] ?? "";
    return { svid, session: holdSession(url, svid, assignment) };
  };
  /**
   * Calls again and again until one is not answered as the job any more; resolves to that answer, when it came, and when
   * the last call began that was answered.
   */
  const callUntilRefused = async (session: HeldSession, repository: string) => {
    const asJob = `permission_denied: no key verifies the capability for ${idOf(repository)}`;
    for (let servedAt = 0; ;) {
      const begunAt = systemClock.now();
      const answer = await session.call();
      if (answer !== asJob) return { answer, servedAt, refusedAt: systemClock.now() };
      servedAt = begunAt;
      await systemClock.sleep(20, signal);
    }
  };
  /** It serves to the end of its SVID and not a moment longer. */
  const assertEndsWithItsSvid = async ({ svid, session }: Awaited<ReturnType<typeof steal>>, of: string) => {
    using held = session;
    const { answer, servedAt, refusedAt } = await callUntilRefused(held, of);
    assert.match(answer, /^permission_denied: it expired at|^http2: /);
    assert.ok(refusedAt > svid.notAfter - 2_000, `${svid.notAfter - refusedAt} ms too early`);
    assert.ok(servedAt < svid.notAfter, `${servedAt - svid.notAfter} ms too late`);
    // Nobody has to call for that.
    await held.closed;
    // Dialled anew it does not get that far.
    using next = holdSession(real.platform.environment["RUNNER_FACADE_URL"] ?? "", svid, "gitea-task-1");
    assert.match(await next.call(), /^http2: /);
  };
  const stateOf = async (run: PushedRun) => (await run.jobs((jobs) => jobs.length > 0))[0]?.status;

  it("ends all sessions with it; once there is a new one, the job has lost no report", async () => {
    const run = await running("away");
    const executor = await theOnly();
    const stolen = await steal("away");
    spire().agent().signal("SIGKILL");
    await spire().agent().exited;
    await assertEndsWithItsSvid(stolen, "away");
    await eventually("no session is open", async () => (await sessions()) === 0);
    // The facade's own is from the same agent.
    await eventually("the facade is not ready", async () =>
      /^svid: no X\.509-SVID for .* it expired at/.test((await health().page("readyz")).text),
    );
    // A restart would not help, and nothing was given up.
    assert.equal((await health().page("livez")).status, 200);
    assert.equal(await stateOf(run), "in_progress");

    await spire().startAgent(signal);
    await renewed(1);
    await eventually("the executor is back", async () => (await sessions()) === 1);
    assert.equal((await health().page("readyz")).status, 200);
    assert.equal((await theOnly()).name, executor.name);
    await openGate("away");
    await assertComplete(run);
  });

  it("for good, because its entry is gone: nothing of the job is accepted, and it fails as one that is not heard of", async () => {
    const run = await running("gone");
    const executor = await theOnly();
    const stolen = await steal("gone");
    for (const { id } of await ours()) await entries().remove(id, signal);
    const expired = () => health().metric('runners_refused_callers_total{reason="expired"}');
    const earlier = (await expired()) ?? 0;
    await assertEndsWithItsSvid(stolen, "gone");
    await eventually("the handshake with it is counted", async () => ((await expired()) ?? 0) > earlier);
    await eventually("the executor cannot report", async () =>
      (await theOnly()).lines.some(({ error, problem }) =>
        /no X\.509-SVID for .* it expired at/.test(String(error ?? problem)),
      ),
    );
    await eventually("no session is open", async () => (await sessions()) === 0);
    assert.equal(await stateOf(run), "in_progress");
    // Its step ends well, but nobody who proves to be the job says so.
    await openGate("gone");
    assert.equal((await theOnly()).name, executor.name, "nobody else was given the job");

    const [job] = await run.jobs();
    assert.equal(job?.conclusion, "failure");
    const log = await run.log(job);
    const cutShort = "This job was cut short: its executor was not heard of any more.";
    const why = log.filter((line) => line.startsWith(cutShort));
    assert.equal(why.length, 1, log.join("\n"));
    assert.ok(!log.some((line) => /^lines \d+$/.test(line)), "its last row is not there");
    await eventually("no executor is left", async () => (await executors()).length === 0);
    assert.deepEqual(await ours(), []);
    const created = real.lines.filter(
      ({ event, assignment }) =>
        event === "executor_created" && executor.name.startsWith(`${String(assignment)}-`),
    );
    assert.equal(created.length, 1);
  });
});

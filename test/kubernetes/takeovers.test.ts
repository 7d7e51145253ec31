import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { systemClock } from "../../controller/platform/clock.ts";
import { eventually } from "../support/eventually.ts";
import { assertNumbered, numberedWorkflow } from "../support/kubernetes/numbered.ts";
import { startPodGate } from "../support/kubernetes/pod-gate.ts";
import { type PodHistory, recordPods, untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import type { Tenant } from "../support/kubernetes/tenant.ts";
import { podsOf } from "../support/kubernetes/troubles.ts";
import { type ClusterController, useCluster } from "../support/kubernetes/use-cluster.ts";
import { newerAnnotation, newerName, newerVersion } from "../support/newer-version/newer-version.ts";
import { writtenByNewer } from "../support/newer-version/written-by-newer.ts";
import type { PushedRun } from "../support/push-run.ts";

const jobs = 10;
const standby = /"msg":"another controller leads, waiting for its Lease"/;
const overMs = 400_000;
/** Of Gitea's patience with tasks of which it hears nothing. */
const zombieSeconds = 60;

describe("two controllers of one cluster, the second of a newer version", function () {
  this.timeout(1_500_000);
  const cluster = useCluster({
    giteaSettings: {
      actions: { ZOMBIE_TASK_TIMEOUT: `${zombieSeconds}s` },
      "cron.stop_zombie_tasks": { SCHEDULE: "@every 10s" },
    },
  });
  let tenants = 0;
  let tenant: Tenant;
  let leader: ClusterController;
  let second: ClusterController;
  let history: PodHistory;

  beforeEach("start both", async () => {
    tenant = await cluster.tenant({ name: `pair-${++tenants}`, capacity: jobs });
    leader = await cluster.start({ tenant });
    second = await cluster.start({ tenant, place: 1, ready: standby, changed: newerVersion });
    history = recordPods(cluster.platform.kubernetes, tenant.namespace);
  });
  afterEach("stop both", async () => {
    await history[Symbol.asyncDispose]();
    for (const { process } of [leader, second]) {
      process.signal("SIGCONT");
      await process.stop();
    }
  });

  const running = async (seconds: number, count = jobs, wait?: string): Promise<PushedRun> => {
    const run = await cluster.push(`run-${tenants}`, numberedWorkflow(count, seconds, wait));
    const claimed = () => leader.lines.filter(({ event }) => event === "runner_claimed").length;
    await eventually("its jobs run", () => claimed() >= Math.min(count, jobs), overMs);
    return run;
  };
  const leads = ({ line }: ClusterController) => line(({ msg }) => msg === "runner started", overMs);
  const oncePerJob = (count: number) => {
    assert.equal(history.pods.size, count);
    for (const [id, names] of history.pods) assert.equal(names.size, 1, `${id}: ${[...names].join(" ")}`);
  };

  it("B-24 lose no job when the leader is killed, nor does a job that waits then start late", async () => {
    // The eleventh waits for a slot, however long the others take to begin.
    await using gate = await startPodGate(cluster.platform.kubernetes);
    const run = await running(40, jobs + 1, gate.wait);
    const killedAt = systemClock.now();
    leader.process.signal("SIGKILL");
    await leads(second);
    const leadsAfterMs = systemClock.now() - killedAt;
    gate.open();
    await assertNumbered(run, jobs + 1, overMs);
    oncePerJob(jobs + 1);
    const created = second.lines.find(({ event }) => event === "executor_created");
    assert.ok(created !== undefined);
    const createdAfterMs = Date.parse(String(created["time"])) - killedAt;
    process.stdout.write(
      `      the next one leads after ${leadsAfterMs} ms, and makes the Pod that waited for a slot after ${createdAfterMs} ms\n`,
    );
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });

  it("B-24 lose no job when the leader stands still for 20 s and wakes up", async () => {
    const run = await running(45);
    leader.process.signal("SIGSTOP");
    const stoppedAt = systemClock.now();
    await leads(second);
    await eventually("20 s are over", () => systemClock.now() - stoppedAt > 20_000);
    leader.process.signal("SIGCONT");
    assert.match(await leader.process.exited, /exit code 1/);
    await assertNumbered(run, jobs, overMs);
    oncePerJob(jobs);
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });

  it("serve running jobs while the API server is away for longer than Gitea has patience", async () => {
    const run = await running(100);
    const { apiServer } = cluster.platform.kubernetes.components;
    await apiServer.pause();
    const awayAt = systemClock.now();
    await leader.line(({ msg }) => msg === "this controller leads no more", overMs);
    const isOver = () => systemClock.now() - awayAt > 2 * zombieSeconds * 1000;
    await eventually("two minutes are over", isOver, overMs, 1_000);
    // Their results came while nobody led.
    const ended = await run.jobs(undefined, overMs);
    assert.ok(ended.every(({ conclusion }) => conclusion === "success"));
    apiServer.resume();
    await leader.process.exited;
    await leads(second);
    await assertNumbered(run, jobs, overMs);
    oncePerJob(jobs);
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });

  it("hand over in a rolling upgrade and back, and no job notices", async () => {
    await using gate = await startPodGate(cluster.platform.kubernetes);
    const early = await running(60, jobs / 2, gate.wait);
    leader.process.signal("SIGTERM");
    assert.equal(await leader.process.exited, "exit code 0");
    await leads(second);
    const { version } = await second.line(({ msg }) => msg === "runner is ready to lead");
    assert.match(String(version), newerName);
    const third = await cluster.start({ tenant, place: 2, ready: standby });

    // With all slots taken one of them waits.
    const count = jobs / 2 + 1;
    const late = await cluster.push(`late-${tenants}`, numberedWorkflow(count, 45, gate.wait));
    const stream = second.environment["NATS_STREAM"] ?? "";
    const hasWritten = async () => {
      const { messages, values } = await writtenByNewer(cluster.platform.nats, stream);
      return messages === 1 && values >= count;
    };
    await eventually(
      "it has written their records, and the waiting one's message",
      hasWritten,
      overMs,
      1_000,
    );
    const pods = await podsOf(cluster, tenant);
    assert.equal(pods.filter(({ metadata }) => newerAnnotation in metadata.annotations).length, jobs / 2);

    second.process.signal("SIGTERM");
    assert.equal(await second.process.exited, "exit code 0");
    await leads(third);
    gate.open();
    await assertNumbered(early, jobs / 2, overMs);
    await assertNumbered(late, count, overMs);
    oncePerJob(jobs + 1);
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
    await third.process.stop();
  });
});

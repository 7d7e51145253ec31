import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createLeasePort } from "../../../controller/kubernetes/lease-port.ts";
import { createLeaseKeeper } from "../../../controller/lifecycle/lease-keeper.ts";
import { defaultLeaseTimes, type LeaseRecord } from "../../../controller/lifecycle/lease.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeKubernetes } from "../../fakes/fake-kubernetes.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

const { signal } = new AbortController();

const record: LeaseRecord = {
  holder: "me",
  durationSeconds: 15,
  acquireTime: "2026-01-01T00:00:00.000Z",
  renewTime: "2026-01-01T00:00:01.500Z",
  transitions: 0,
};

function start() {
  const clock = createFakeClock();
  const cluster = createFakeKubernetes(clock);
  const port = createLeasePort({ api: cluster.api, namespace: "ci", name: "lease" });
  const spec = () => cluster.get("Lease", "lease")?.spec;
  return { clock, cluster, port, spec };
}

describe("the port to a Lease", () => {
  it("finds none, creates it, and reads it again", async () => {
    const { port, spec } = start();
    assert.equal(await port.get(signal), undefined);
    const created = await port.create(record, signal);
    assert.deepEqual(spec(), {
      holderIdentity: "me",
      leaseDurationSeconds: 15,
      acquireTime: "2026-01-01T00:00:00.000000Z",
      renewTime: "2026-01-01T00:00:01.500000Z",
      leaseTransitions: 0,
    });
    assert.deepEqual(await port.get(signal), created);
  });

  it("says so when another has created it first", async () => {
    const { port } = start();
    await port.create(record, signal);
    assert.equal(await port.create({ ...record, holder: "other" }, signal), undefined);
    assert.equal((await port.get(signal))?.record.holder, "me");
  });

  it("updates the version that was read, and no other", async () => {
    const { cluster, port } = start();
    const created = await port.create(record, signal);
    assert.ok(created !== undefined);
    const updated = await port.update({ ...record, transitions: 1 }, created.version, signal);
    assert.equal(updated?.record.transitions, 1);
    assert.equal(await port.update(record, created.version, signal), undefined);
    cluster.edit("Lease", "lease", (lease) => ({
      ...lease,
      metadata: { ...lease.metadata, labels: { touched: "" } },
    }));
    assert.equal(await port.update(record, updated.version, signal), undefined);
    cluster.remove("Lease", "lease");
    assert.equal(await port.update(record, updated.version, signal), undefined);
  });

  it("leaves what others have written in it, whoever read it before", async () => {
    const { cluster, port } = start();
    const metadata = { name: "lease", namespace: "ci", labels: { team: "ci" }, annotations: { why: "x" } };
    const there = cluster.put({
      kind: "Lease",
      metadata,
      spec: { holderIdentity: "other", strategy: "OldestEmulationVersion" },
      future: { field: [1] },
    });
    // By a port that has not read it itself.
    const updated = await port.update(record, there.metadata.resourceVersion ?? "", signal);
    assert.equal(updated?.record.holder, "me");
    const now = cluster.get("Lease", "lease");
    assert.deepEqual([now?.metadata.labels, now?.metadata.annotations], [{ team: "ci" }, { why: "x" }]);
    assert.equal(now?.spec?.["strategy"], "OldestEmulationVersion");
    assert.deepEqual(now["future"], { field: [1] });
  });

  it("writes the times that it read with all of their digits", async () => {
    const { cluster, port, spec } = start();
    const acquireTime = "2026-01-01T00:00:00.123456+02:00";
    cluster.put({ kind: "Lease", metadata: { name: "lease", namespace: "ci" }, spec: { acquireTime } });
    const there = await port.get(signal);
    assert.ok(there !== undefined);
    await port.update({ ...record, acquireTime: there.record.acquireTime }, there.version, signal);
    assert.equal(spec()?.["acquireTime"], acquireTime);
  });

  it("reads a Lease of which nothing is filled in, and writes over it", async () => {
    const { cluster, port, spec } = start();
    cluster.put({ kind: "Lease", metadata: { name: "lease", namespace: "ci" } });
    const there = await port.get(signal);
    const empty = { holder: "", durationSeconds: 0, acquireTime: "", renewTime: "", transitions: 0 };
    assert.deepEqual(there?.record, empty);
    const written = { ...record, acquireTime: "" };
    assert.ok((await port.update(written, there.version, signal)) !== undefined);
    assert.equal(spec()?.["acquireTime"], null);
  });

  it("rejects what is neither an answer nor a refusal that means one", async () => {
    const { cluster, port } = start();
    cluster.setAway(true);
    await assert.rejects(port.get(signal), { name: "ApiOutage" });
    cluster.setAway(false);
    cluster.deny({ resource: "leases" });
    await assert.rejects(port.get(signal), { name: "ApiRefusal", reason: "Forbidden" });
    cluster.allowAll();
    cluster.remove("Namespace", "ci");
    await assert.rejects(port.create(record, signal), { name: "ApiRefusal", reason: "NotFound" });
  });

  it("serves a keeper: acquire, a lost answer, renewal, release", async () => {
    const { clock, cluster, port, spec } = start();
    const keeper = createLeaseKeeper({
      port,
      identity: "me",
      clock,
      steady: () => clock.now(),
      random: () => 0,
      log: createRecordingLogger(),
      times: defaultLeaseTimes,
    });
    await keeper.acquire(signal);
    const stop = new AbortController();
    const renewing = keeper.renew(stop.signal).catch(() => "stopped");
    cluster.failNext({ verb: "update", resource: "leases" }, "lost answer");
    await clock.step(3 * defaultLeaseTimes.retryMs);
    assert.ok(keeper.msLeft() > defaultLeaseTimes.renewDeadlineMs - defaultLeaseTimes.retryMs);
    stop.abort();
    assert.equal(await renewing, "stopped");
    await keeper.release(signal);
    assert.equal(spec()?.["holderIdentity"], "");
  });
});

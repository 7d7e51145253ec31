import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { missingPermissions } from "../../../controller/kubernetes/check-permissions.ts";
import { createLeasePort } from "../../../controller/kubernetes/lease-port.ts";
import { permissionsOf } from "../../../controller/kubernetes/permissions.ts";
import type { LeaseRecord } from "../../../controller/lifecycle/lease.ts";
import { handsOn, type KubernetesUnderTest, newName, none, refusedWith } from "./under-test.ts";

const record: LeaseRecord = {
  holder: "me",
  durationSeconds: 15,
  acquireTime: "2026-01-01T00:00:00.000Z",
  renewTime: "2026-01-01T00:00:01.500Z",
  transitions: 0,
};

/** Leases and permissions, by our own hands. */
export function describeOurs(make: () => Promise<KubernetesUnderTest>): void {
  let under: KubernetesUnderTest;
  beforeEach(async () => {
    under = await make();
  });
  afterEach(() => under[Symbol.asyncDispose]());

  describe("a Lease", () => {
    const start = () => {
      const { api, namespace } = under;
      const name = newName("lease");
      const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
      const port = () => createLeasePort({ api, namespace, name });
      return { ...handsOn(under), port, leases, path: `${leases}/${name}`, name };
    };

    it("is created by one, and kept by whoever knows its version", async () => {
      const { port, path, remove } = start();
      const [mine, other] = [port(), port()];
      assert.equal(await mine.get(none), undefined);
      const created = await mine.create(record, none);
      assert.ok(created !== undefined);
      assert.equal(await other.create({ ...record, holder: "other" }, none), undefined);
      assert.deepEqual(await other.get(none), created);
      const renewed = await mine.update(
        { ...created.record, renewTime: "2026-01-01T00:00:03.500Z" },
        created.version,
        none,
      );
      assert.equal(renewed?.record.renewTime, "2026-01-01T00:00:03.500000Z");
      assert.equal(renewed.record.acquireTime, created.record.acquireTime);
      assert.equal(await other.update({ ...record, holder: "other" }, created.version, none), undefined);
      const released = await mine.update(
        { ...renewed.record, holder: "", durationSeconds: 1 },
        renewed.version,
        none,
      );
      assert.equal(released?.record.holder, "");
      const taken = await other.update(
        { ...record, holder: "other", transitions: 1 },
        released.version,
        none,
      );
      assert.equal(taken?.record.transitions, 1);
      await remove(path);
      assert.equal(await other.update(record, taken.version, none), undefined);
      assert.equal(await other.get(none), undefined);
    });

    it("keeps what others wrote in it", async () => {
      const { port, path, patch, get, remove } = start();
      await port().create(record, none);
      await patch(path, { metadata: { labels: { team: "ci" }, annotations: { why: "because" } } });
      const there = await port().get(none);
      await port().update({ ...record, transitions: 2 }, there?.version ?? "", none);
      const { metadata, spec } = await get(path);
      assert.deepEqual([metadata.labels, metadata.annotations], [{ team: "ci" }, { why: "because" }]);
      assert.equal(spec?.["leaseTransitions"], 2);
      await remove(path);
    });

    it("is refused with times of another form, no duration and no version", async () => {
      const { leases, path, create, replace, remove, name } = start();
      const lease = (spec: object) => ({
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata: { name },
        spec,
      });
      assert.equal(
        await refusedWith(create(leases, lease({ renewTime: "2026-01-01T00:00:00.000Z" }))),
        "400 BadRequest",
      );
      assert.equal(await refusedWith(create(leases, lease({ leaseDurationSeconds: 0 }))), "422 Invalid");
      await create(leases, lease({ renewTime: null, acquireTime: "2026-01-01T00:00:00.000000Z" }));
      assert.equal(await refusedWith(replace(path, lease({}))), "422 Invalid");
      await remove(path);
    });
  });

  describe("permissions", () => {
    it("are all there for an administrator, and all missing for a stranger", async () => {
      const { api, stranger, namespace } = under;
      const permissions = permissionsOf({ controllerNamespace: namespace, podNamespace: namespace });
      assert.deepEqual(await missingPermissions(api, permissions, none), []);
      const missing = await missingPermissions(stranger, permissions, none);
      assert.equal(missing.length, permissions.flatMap(({ verbs }) => verbs).length);
      assert.equal(missing[3], `may not create pods in namespace ${namespace}: needed to start executors`);
    });

    it("are what the server goes by", async () => {
      const { stranger, namespace } = under;
      const path = `/api/v1/namespaces/${namespace}/pods`;
      assert.equal(await refusedWith(stranger.call({ method: "GET", path }, none)), "403 Forbidden");
    });
  });
}

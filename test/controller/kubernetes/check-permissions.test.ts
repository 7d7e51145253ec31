import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { missingPermissions } from "../../../controller/kubernetes/check-permissions.ts";
import { permissionsOf } from "../../../controller/kubernetes/permissions.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeKubernetes } from "../../fakes/fake-kubernetes.ts";

const { signal } = new AbortController();
const permissions = permissionsOf({ controllerNamespace: "ci", podNamespace: "gitea-actions" });

describe("the check of permissions", () => {
  it("finds nothing missing where everything is allowed", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    assert.deepEqual(await missingPermissions(cluster.api, permissions, signal), []);
  });

  it("names all that is missing at once, and what it is needed for", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    cluster.deny({ verb: "create", resource: "pods", namespace: "gitea-actions" });
    cluster.deny({ verb: "update", resource: "leases" });
    cluster.deny({ resource: "nodes" });
    cluster.deny({ verb: "delete", resource: "clusterstaticentries" });
    assert.deepEqual(await missingPermissions(cluster.api, permissions, signal), [
      "may not update leases.coordination.k8s.io in namespace ci: needed to agree on a leader",
      "may not create pods in namespace gitea-actions: needed to start executors",
      "may not get nodes in the cluster: needed to name the agent of an executor's node",
      "may not delete clusterstaticentries.spire.spiffe.io in the cluster: needed to give executors their identities",
    ]);
  });

  it("asks for each verb where it is needed, and for nothing else", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    cluster.deny({});
    const missing = await missingPermissions(cluster.api, permissions, signal);
    assert.deepEqual(
      missing.map((sentence) => sentence.replace(/^may not (.*):.*$/, "$1")),
      [
        ...["get", "create", "update"].map((verb) => `${verb} leases.coordination.k8s.io in namespace ci`),
        ...["create", "get", "list", "watch", "patch", "delete"].map(
          (verb) => `${verb} pods in namespace gitea-actions`,
        ),
        ...["list", "watch"].map((verb) => `${verb} events in namespace gitea-actions`),
        "get nodes in the cluster",
        ...["create", "get", "list", "watch", "delete"].map(
          (verb) => `${verb} clusterstaticentries.spire.spiffe.io in the cluster`,
        ),
      ],
    );
  });

  it("finds a Role that was made by the same table sufficient, and one for another namespace not", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    cluster.allowOnly(permissions);
    assert.deepEqual(await missingPermissions(cluster.api, permissions, signal), []);
    const elsewhere = permissionsOf({ controllerNamespace: "ci", podNamespace: "other" });
    const missing = await missingPermissions(cluster.api, elsewhere, signal);
    assert.deepEqual([missing.length, missing.every((one) => one.includes("in namespace other"))], [8, true]);
  });

  it("names the resource that nobody has installed", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    cluster.uninstall("spire.spiffe.io");
    const [missing, ...others] = await missingPermissions(cluster.api, permissions, signal);
    assert.match(missing ?? "", /no clusterstaticentries\.spire\.spiffe\.io of version v1alpha1/);
    assert.deepEqual(others, []);
  });

  it("asks for nothing of Pods where there are none", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    cluster.deny({});
    cluster.uninstall("spire.spiffe.io");
    const only = permissionsOf({ controllerNamespace: "ci", podNamespace: undefined });
    assert.equal((await missingPermissions(cluster.api, only, signal)).length, 3);
    const none = permissionsOf({ controllerNamespace: undefined, podNamespace: undefined });
    assert.deepEqual(await missingPermissions(cluster.api, none, signal), []);
  });

  it("rejects if the server does not answer", async () => {
    const cluster = createFakeKubernetes(createFakeClock());
    cluster.failNext({ resource: "selfsubjectaccessreviews" }, "hang up");
    await assert.rejects(missingPermissions(cluster.api, permissions, signal), { name: "ApiOutage" });
  });
});

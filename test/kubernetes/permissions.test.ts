import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { permissionsOf, staticEntryApi } from "../../controller/kubernetes/permissions.ts";
import { eventually } from "../support/eventually.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";

const places = { podNamespace: "ns", controllerNamespace: "ns" };

describe("a controller that may not do something in its cluster", function () {
  this.timeout(300_000);
  const cluster = useCluster();
  let tenants = 0;

  for (const { resource, group, verbs, neededTo } of permissionsOf(places))
    for (const verb of verbs)
      it(`says so at its start, and ends: ${verb} ${resource}`, async () => {
        const tenant = await cluster.tenant({ name: `less-${++tenants}`, without: `${resource}/${verb}` });
        const what = group === "" ? resource : `${resource}.${group}`;
        const ready = new RegExp(`may not ${verb} ${what} in .*: needed to ${neededTo}`);
        const { process, lines } = await cluster.start({ tenant, ready });
        assert.equal(await process.exited, "exit code 1");
        assert.equal(lines.filter(({ level }) => level === "error").length, 1);
      });

  it("says that SPIRE's resources are not there, where they are not", async () => {
    const tenant = await cluster.tenant({ name: "no-crd" });
    const { api } = cluster.platform.kubernetes;
    const name = "clusterstaticentries.spire.spiffe.io";
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;
    await api.remove(path, AbortSignal.timeout(30_000));
    const { group, version, resource } = staticEntryApi;
    await eventually("nobody serves them any more", async () => {
      const collection = `/apis/${group}/${version}/${resource}`;
      return (await api.ask("GET", collection, AbortSignal.timeout(30_000))).status === 404;
    });
    const ready = /the cluster has no clusterstaticentries\.spire\.spiffe\.io/;
    const { process } = await cluster.start({ tenant, ready });
    assert.equal(await process.exited, "exit code 1");
  });
});

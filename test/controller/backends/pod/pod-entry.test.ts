import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import {
  type EntrySettings,
  type PodPlace,
  parentId,
  podEntryTarget,
} from "../../../../controller/backends/pod/pod-entry.ts";
import type { ExecutorMetadata } from "../../../../controller/assignment/executor-metadata.ts";
import { SpiffeIdError } from "../../../../controller/identity/spiffe-id.ts";
import { staticEntry } from "../../../../controller/static-entries/static-entry.ts";
import { anExecutorMetadata } from "../../../support/builders.ts";

const settings = {
  cluster: "homelab",
  className: "spire-mgmt-spire",
  agentId: "spiffe://example.org/spire/agent/k8s_psat/{cluster}/{nodeUid}",
  uid: 2000,
  svidTtlSeconds: 600,
};
const target = {
  podUid: "0a1b2c3d-0000-4000-8000-000000000001",
  nodeUid: "0a1b2c3d-0000-4000-8000-0000000000ff",
  namespace: "gitea-actions",
};
const podEntry = (metadata: ExecutorMetadata, place: PodPlace, given: EntrySettings) =>
  staticEntry(metadata, podEntryTarget(place, given), given);
const wanted = podEntry(anExecutorMetadata(), target, settings);

describe("the registration entry of a Pod", () => {
  it("is for one user in one container of one Pod, below the agent of its node", () => {
    assert.deepEqual(wanted, {
      apiVersion: "spire.spiffe.io/v1alpha1",
      kind: "ClusterStaticEntry",
      metadata: {
        name: "gitea-task-42-1-00000000",
        labels: {
          "ci.ddupan.top/runner": "true",
          "ci.ddupan.top/owner": "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2",
          "ci.ddupan.top/assignment-id": "gitea-task-42",
          "ci.ddupan.top/task-id": "42",
          "ci.ddupan.top/backend": "pod",
          "ci.ddupan.top/attempt": "1",
          "ci.ddupan.top/nonce": "00000000000000000000000000000001",
          "spire.spiffe.io/class-name": "spire-mgmt-spire",
        },
        annotations: { "ci.ddupan.top/pod-namespace": "gitea-actions" },
      },
      spec: {
        spiffeID: "spiffe://example.org/ci/acme/widgets/build",
        parentID: "spiffe://example.org/spire/agent/k8s_psat/homelab/0a1b2c3d-0000-4000-8000-0000000000ff",
        selectors: [
          "k8s:pod-uid:0a1b2c3d-0000-4000-8000-000000000001",
          "k8s:container-name:executor",
          "unix:uid:2000",
        ],
        x509SVIDTTL: "10m0s",
        className: "spire-mgmt-spire",
      },
    });
  });

  it("does not say that its executor's task is over", () => {
    assert.deepEqual(podEntry(anExecutorMetadata({ terminal: true }), target, settings), wanted);
  });

  it("is below one agent for all where that is configured", () => {
    const agentId = "spiffe://example.org/node";
    const { spec } = podEntry(anExecutorMetadata(), target, { ...settings, agentId });
    assert.equal(spec.parentID, agentId);
  });

  it("writes its lifetime as Go does", () => {
    for (const [svidTtlSeconds, text] of [
      [45, "45s"],
      [60, "1m0s"],
      [3_661, "1h1m1s"],
      [86_400, "24h0m0s"],
    ] as const)
      assert.equal(
        podEntry(anExecutorMetadata(), target, { ...settings, svidTtlSeconds }).spec.x509SVIDTTL,
        text,
      );
  });

  for (const bad of ["", "a/b", "a:b", "{cluster}", "..", "a b"])
    it(`is not made for the UID ${JSON.stringify(bad)}`, () => {
      for (const field of ["podUid", "nodeUid"])
        assert.throws(
          () => podEntry(anExecutorMetadata(), { ...target, [field]: bad }, settings),
          (error) =>
            error instanceof BackendError && error.kind === "retryable" && error.reason === "identity",
        );
    });

  it("is not made below what is no SPIFFE ID", () => {
    for (const template of ["", "agent", "spiffe://example.org/{node}", "spiffe://example.org/"])
      assert.throws(() => parentId(template, { cluster: "c", nodeUid: "n" }), SpiffeIdError);
  });
});

import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { BackendError } from "../../../../controller/backends/backend.ts";
import {
  compareEntry,
  type EntryDocument,
  entryStanding,
  noticeMs,
  parseEntry,
} from "../../../../controller/backends/pod/entry-status.ts";
import { parentId, staticEntry } from "../../../../controller/backends/pod/static-entry.ts";
import { SpiffeIdError } from "../../../../controller/identity/spiffe-id.ts";
import { anAttempt, anExecutorMetadata } from "../../../support/builders.ts";

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
const wanted = staticEntry(anExecutorMetadata(), target, settings);

describe("the registration entry of an executor", () => {
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
    assert.deepEqual(staticEntry(anExecutorMetadata({ terminal: true }), target, settings), wanted);
  });

  it("is below one agent for all where that is configured", () => {
    const agentId = "spiffe://example.org/node";
    const { spec } = staticEntry(anExecutorMetadata(), target, { ...settings, agentId });
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
        staticEntry(anExecutorMetadata(), target, { ...settings, svidTtlSeconds }).spec.x509SVIDTTL,
        text,
      );
  });

  for (const bad of ["", "a/b", "a:b", "{cluster}", "..", "a b"])
    it(`is not made for the UID ${JSON.stringify(bad)}`, () => {
      for (const field of ["podUid", "nodeUid"])
        assert.throws(
          () => staticEntry(anExecutorMetadata(), { ...target, [field]: bad }, settings),
          (error) =>
            error instanceof BackendError && error.kind === "retryable" && error.reason === "identity",
        );
    });

  it("is not made below what is no SPIFFE ID", () => {
    for (const template of ["", "agent", "spiffe://example.org/{node}", "spiffe://example.org/"])
      assert.throws(() => parentId(template, { cluster: "c", nodeUid: "n" }), SpiffeIdError);
  });
});

describe("what has become of a registration entry", () => {
  const standing = (status: unknown, ageMs = 0) => entryStanding(parseEntry({ ...wanted, status }), ageMs);

  it("is not known from `set`, which says nothing", () => {
    for (const set of [true, false])
      assert.deepEqual(standing({ rendered: true, masked: false, set }), { kind: "declared" });
  });

  it("is waited for, and after a while with a reason", () => {
    for (const nothing of [undefined, {}, { set: false }, "junk"])
      assert.deepEqual(standing(nothing, noticeMs - 1), { kind: "waiting" });
    const late = standing(undefined, noticeMs);
    assert.ok(late.kind === "waiting");
    assert.deepEqual(late.failure, {
      reason: "identity",
      evidence:
        'ClusterStaticEntry gitea-task-42-1-00000000: no spire-controller-manager has read it; none runs, none has class "spire-mgmt-spire", or what it says cannot be read',
    });
  });

  for (const [status, why] of [
    [{ rendered: false, masked: false, set: false }, "spire-controller-manager cannot make an entry of it"],
    [
      { rendered: true, masked: true, set: false },
      "an older one has the same identity, parent and selectors",
    ],
  ] as const)
    it(`is a failure that never heals with ${JSON.stringify(status)}`, () => {
      assert.deepEqual(standing(status), {
        kind: "failed",
        failure: { reason: "identity", evidence: `ClusterStaticEntry gitea-task-42-1-00000000: ${why}` },
      });
    });

  it("is read, whatever is given for an entry", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (junk, status) => {
        for (const value of [junk, { ...wanted, status }, { ...wanted, spec: junk }, { metadata: junk }])
          assert.match(entryStanding(parseEntry(value), 0).kind, /^(declared|waiting|failed)$/);
      }),
    );
  });
});

describe("what is there under the name of a registration entry", () => {
  const compare = (change: (entry: EntryDocument) => unknown) =>
    compareEntry(parseEntry(change(parseEntry(structuredClone(wanted)))), wanted);
  const withSpec = (fields: Record<string, unknown>) =>
    compare((entry) => ({ ...entry, spec: { ...entry.spec, ...fields } }));
  const withLabels = (labels: Record<string, string>) =>
    compare((entry) => ({
      ...entry,
      metadata: { ...entry.metadata, labels: { ...entry.metadata.labels, ...labels } },
    }));

  it("is that entry if it says the same, also where fields were filled in or labels added", () => {
    assert.equal(
      compare((entry) => entry),
      "same",
    );
    assert.equal(withSpec({ admin: false, downstream: false }), "same");
    assert.equal(withLabels({ team: "ci" }), "same");
  });

  it("has to make way if it is ours and says something else", () => {
    for (const fields of [
      { selectors: ["k8s:pod-uid:other", "unix:uid:2000"] },
      { parentID: "spiffe://example.org/other" },
      { spiffeID: "spiffe://example.org/ci/acme/widgets/other" },
      { className: "" },
      { x509SVIDTTL: "24h" },
      { admin: true },
      { downstream: true },
      { dnsNames: ["x"] },
    ])
      assert.equal(withSpec(fields), "stale", JSON.stringify(fields));
  });

  it("is left alone if it is somebody else's", () => {
    assert.equal(withLabels({ "ci.ddupan.top/owner": "another" }), "foreign");
    assert.equal(withLabels({ "ci.ddupan.top/nonce": anAttempt({ number: 2 }).nonce }), "foreign");
    assert.equal(
      compare(() => ({ spec: wanted.spec })),
      "foreign",
    );
  });
});

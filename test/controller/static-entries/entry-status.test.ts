import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  compareEntry,
  type EntryDocument,
  entryStanding,
  noticeMs,
  parseEntry,
} from "../../../controller/static-entries/entry-status.ts";
import { staticEntry } from "../../../controller/static-entries/static-entry.ts";
import { anAttempt, anExecutorMetadata } from "../../support/builders.ts";

const wanted = staticEntry(
  anExecutorMetadata(),
  { parentId: "spiffe://example.org/agent", selectors: ["unix:uid:2000"] },
  { className: "spire-mgmt-spire", svidTtlSeconds: 600 },
);

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

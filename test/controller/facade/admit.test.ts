import assert from "node:assert/strict";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, it } from "mocha";
import type { AssignmentRecord, Phase } from "../../../controller/assignment/record.ts";
import { admit, callerOf, type Peer } from "../../../controller/facade/admit.ts";
import { signCapability } from "../../../controller/identity/capability.ts";
import { anAssignment, anAttempt, aRecord } from "../../support/builders.ts";
import { type CallerInit, callerHeaders, instance, keyRing } from "../../support/facade-under-test.ts";
import { testKeyRing } from "../../support/jetstream.ts";

const assignment = anAssignment();
const { id, spiffeId } = assignment;
const other = anAssignment({ taskId: 43n, jobKey: "deploy" });
const sameJob = anAssignment({ taskId: 44n });
const first = anAttempt();
const second = anAttempt({ number: 2 });
const known: Peer = { ok: true, id: spiffeId };

const claimOf = (by: string) => ({ instance: by, logRows: 0, at: 1 });
const starting: Phase = { name: "starting", attempt: first, since: 1, deadlineAt: 9 };
const adopted: Phase = { name: "adopted", attempt: first, since: 1 };
const queued: Phase = { name: "queued", notBefore: 0 };
const byUs = { by: "controller", result: "failure", executorGone: false } as const;
const claimed = (by = instance): Phase => ({ name: "claimed", attempt: first, claim: claimOf(by) });

/** How a call with this connection and these headers against this record is refused; undefined if it is admitted. */
function refusal(
  peer: Peer | undefined,
  init: CallerInit & { readonly omit?: string },
  record: AssignmentRecord | undefined,
): Code | undefined {
  const headers = new Headers(callerHeaders(init));
  if (init.omit !== undefined) headers.delete(init.omit);
  try {
    assert.equal(admit(callerOf(keyRing, peer, headers), record), record);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof ConnectError);
    return error.code;
  }
}

type Case = readonly [
  title: string,
  peer: Peer | undefined,
  init: CallerInit & { readonly omit?: string },
  phase: Phase | undefined,
  refused: Code | undefined,
  /** Attempts that the record knows of, 0 unless given. */
  begun?: number,
];

describe("admitting a caller", () => {
  const cases: readonly Case[] = [
    ["its own attempt before the claim", known, {}, starting, undefined],
    ["its own attempt after its claim", known, {}, claimed(), undefined],
    [
      "its own attempt after the end",
      known,
      {},
      {
        name: "finished",
        attempt: first,
        claim: claimOf(instance),
        result: "success",
        by: "executor",
        at: 1,
      },
      undefined,
    ],
    [
      "its own attempt after an end without a claim",
      known,
      {},
      { name: "finished", attempt: first, result: "cancelled", by: "controller", at: 1 },
      undefined,
    ],
    ["a connection without a certificate", undefined, {}, starting, Code.PermissionDenied],
    [
      "a certificate that is no good SVID",
      { ok: false, reason: "it expired" },
      {},
      starting,
      Code.PermissionDenied,
    ],
    [
      "another job's SVID with the right capability",
      { ok: true, id: other.spiffeId },
      {},
      starting,
      Code.PermissionDenied,
    ],
    [
      "the controller's own SVID with the right capability",
      { ok: true, id: "spiffe://example.org/controller" },
      {},
      starting,
      Code.PermissionDenied,
    ],
    [
      "the same job of a fork with the right capability",
      { ok: true, id: anAssignment({ trust: "fork" }).spiffeId },
      {},
      starting,
      Code.PermissionDenied,
    ],
    [
      "the right SVID with another assignment's capability",
      known,
      { capability: callerHeaders({ assignment: other })["ci-runner-capability"] ?? "" },
      starting,
      Code.PermissionDenied,
    ],
    [
      "the right SVID with the capability of another run of the same job",
      known,
      { capability: callerHeaders({ assignment: sameJob })["ci-runner-capability"] ?? "" },
      starting,
      Code.PermissionDenied,
    ],
    [
      "the right SVID and capability for another run's id",
      known,
      { assignmentId: sameJob.id },
      starting,
      Code.PermissionDenied,
    ],
    [
      "a capability of a key that we lack",
      known,
      { capability: signCapability(testKeyRing(2), { assignmentId: id, spiffeId, attempt: first }) },
      starting,
      Code.PermissionDenied,
    ],
    ["no capability", known, { omit: "ci-runner-capability" }, starting, Code.PermissionDenied],
    ["no assignment id", known, { omit: "ci-assignment-id" }, starting, Code.PermissionDenied],
    ["no instance", known, { omit: "ci-bootstrap-instance" }, starting, Code.InvalidArgument],
    ["an instance that is none", known, { instance: "a b" }, starting, Code.InvalidArgument],
    ["an assignment that is not known yet", known, {}, undefined, Code.Unavailable],
    ["an assignment without an attempt yet", known, {}, queued, Code.Unavailable],
    [
      "a later attempt than any that the record knows of",
      known,
      { attempt: second },
      queued,
      Code.Unavailable,
      1,
    ],
    ["a later attempt than the one that is starting", known, { attempt: second }, starting, Code.Unavailable],
    ["the last attempt, which was given up", known, {}, queued, Code.Unauthenticated, 1],
    ["an attempt that was given up before the last one", known, {}, queued, Code.Unauthenticated, 2],
    ["an attempt whose record was lost and that was found again", known, {}, adopted, undefined],
    [
      "another attempt than the one that was found again",
      known,
      { attempt: second },
      adopted,
      Code.Unauthenticated,
    ],
    [
      "its own attempt while its end is on the way to Gitea",
      known,
      {},
      { name: "ending", attempt: first, claim: claimOf(instance), end: byUs, since: 1 },
      undefined,
    ],
    [
      "another instance while the end is on the way to Gitea",
      known,
      {},
      { name: "ending", attempt: first, claim: claimOf("bootstrap-instance-2"), end: byUs, since: 1 },
      Code.Unauthenticated,
    ],
    [
      "an attempt of a task that ends before one was tried",
      known,
      {},
      { name: "ending", end: { ...byUs, executorGone: true }, since: 1 },
      Code.Unauthenticated,
    ],
    [
      "an attempt whose place another one took",
      known,
      {},
      { name: "starting", attempt: second, since: 1, deadlineAt: 9 },
      Code.Unauthenticated,
    ],
    ["a later attempt than the record's", known, { attempt: second }, claimed(), Code.Unauthenticated],
    [
      "an attempt of the same number from before the record was lost",
      known,
      { attempt: anAttempt({ nonce: second.nonce }) },
      starting,
      Code.Unauthenticated,
    ],
    ["another instance after the claim", known, {}, claimed("bootstrap-instance-2"), Code.Unauthenticated],
    [
      "another instance after the end",
      known,
      {},
      {
        name: "finished",
        attempt: first,
        claim: claimOf("bootstrap-instance-2"),
        result: "success",
        by: "executor",
        at: 1,
      },
      Code.Unauthenticated,
    ],
    [
      "an attempt of a task that ended before one was tried",
      known,
      {},
      { name: "finished", result: "cancelled", by: "controller", at: 1 },
      Code.Unauthenticated,
    ],
  ];
  for (const [title, peer, init, phase, refused, given] of cases) {
    it(`B-11 B-71 ${refused === undefined ? "admits" : `answers ${Code[refused]} to`} ${title}`, () => {
      const inPhase = phase !== undefined && "attempt" in phase ? (phase.attempt?.number ?? 0) : 0;
      const begun = given ?? inPhase;
      const record =
        phase === undefined ? undefined : aRecord({ assignment, phase, attempts: { begun, burnt: 0 } });
      assert.equal(refusal(peer, init, record), refused);
    });
  }

  it("ends a bootstrap only on the record's word, never for what the connection or the keys say", () => {
    const final = cases.filter(([, , , , refused]) => refused === Code.Unauthenticated);
    for (const [title, peer, , phase] of final) {
      assert.ok(peer?.ok, title);
      assert.notEqual(phase, undefined, title);
    }
  });

  it("verifies a capability that was signed by the key before the present one", () => {
    const capability = signCapability(keyRing, { assignmentId: id, spiffeId, attempt: first });
    const headers = new Headers(callerHeaders({ capability }));
    const caller = callerOf(testKeyRing(2, 1), known, headers);
    assert.deepEqual(caller, { assignmentId: id, spiffeId, attempt: first, instance });
  });

  it("names neither the capability nor a key in a refusal", () => {
    const capability = signCapability(testKeyRing(2), { assignmentId: id, spiffeId, attempt: first });
    assert.throws(
      () => callerOf(keyRing, known, new Headers(callerHeaders({ capability }))),
      (error: unknown) => error instanceof ConnectError && !error.message.includes(capability.slice(2)),
    );
  });
});

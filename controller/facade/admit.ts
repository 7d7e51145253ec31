import { Code, ConnectError } from "@connectrpc/connect";
import { callHeaders } from "../assignment/executor-call.ts";
import {
  type AssignmentRecord,
  claimOf,
  isCurrentAttempt,
  isLater,
  isUnclaimed,
} from "../assignment/record.ts";
import { verifyCapability, type Attempt } from "../identity/capability.ts";
import type { KeyRing } from "../identity/key-ring.ts";

/** Who is at the other end of the connection, as the TLS layer found out once for the session. */
export type Peer =
  { readonly ok: true; readonly id: string } | { readonly ok: false; readonly reason: string };

/** A call whose SVID and capability name one attempt of one assignment. */
export type Caller = {
  readonly assignmentId: string;
  readonly spiffeId: string;
  readonly attempt: Attempt;
  readonly instance: string;
};

/**
 * Reads who calls from the connection's SVID and the call's headers; neither is enough alone. Throws
 * `permission_denied`, which a bootstrap repeats until its deadline: a key that is being rotated, or a
 * controller that has the wrong key file for a moment, must not cost a job.
 */
export function callerOf(keyRing: KeyRing, peer: Peer | undefined, headers: Headers): Caller {
  if (peer === undefined) throw new ConnectError("no client certificate", Code.PermissionDenied);
  if (!peer.ok) throw new ConnectError(peer.reason, Code.PermissionDenied);
  const assignmentId = headers.get(callHeaders.assignmentId) ?? "";
  const subject = { assignmentId, spiffeId: peer.id };
  const attempt = verifyCapability(keyRing, headers.get(callHeaders.capability) ?? "", subject);
  if (attempt === undefined)
    throw new ConnectError(`no key verifies the capability for ${peer.id}`, Code.PermissionDenied);
  const instance = headers.get(callHeaders.instance) ?? "";
  if (!/^[0-9A-Za-z-]{16,64}$/.test(instance))
    throw new ConnectError(`the header ${callHeaders.instance} is missing`, Code.InvalidArgument);
  return { ...subject, attempt, instance };
}

/** Whether SVID and capability are right, whatever they are right for. */
export function isVerified(keyRing: KeyRing, peer: Peer, headers: Headers): boolean {
  const assignmentId = headers.get(callHeaders.assignmentId) ?? "";
  const capability = headers.get(callHeaders.capability) ?? "";
  return peer.ok && verifyCapability(keyRing, capability, { assignmentId, spiffeId: peer.id }) !== undefined;
}

/**
 * Admits a caller to an assignment's record, if its attempt is the current one. Throws `unavailable` while the
 * record does not know better yet, and `unauthenticated`, which ends a bootstrap, only on the record's word.
 */
export function admit(caller: Caller, record: AssignmentRecord | undefined): AssignmentRecord {
  if (record === undefined) throw notKnown(caller);
  // The record counts the attempts before they begin: it is an old one, and what it said then got lost.
  if (isUnclaimed(record) && isLater(record, caller.attempt)) throw notKnown(caller);
  if (record.phase.name === "queued") throw superseded(caller, "it was given up");
  if (!isCurrentAttempt(record, caller.attempt))
    throw superseded(caller, "another attempt has taken its place");
  const claim = claimOf(record);
  if (claim !== undefined && claim.instance !== caller.instance)
    throw superseded(caller, "another instance has claimed the task");
  return record;
}

function notKnown({ assignmentId }: Caller): ConnectError {
  return new ConnectError(`${assignmentId} is not known yet`, Code.Unavailable);
}

/** The final refusal: this bootstrap will never be needed again. */
export function superseded(caller: Caller, why: string): ConnectError {
  return new ConnectError(
    `attempt ${caller.attempt.number} of ${caller.assignmentId}: ${why}`,
    Code.Unauthenticated,
  );
}

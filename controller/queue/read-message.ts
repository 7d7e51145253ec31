import { type Assignment, sameAssignment } from "../assignment/assignment.ts";
import type { BackendKind } from "../assignment/backend-kind.ts";
import { InvalidAssignmentError } from "../assignment/errors.ts";
import { IdentityError } from "../identity/errors.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import { type Opened, open } from "./envelope.ts";

export type MessageReader = {
  readonly keyRing: KeyRing;
  /** What the task itself says; throws or rejects when it makes no assignment. */
  readonly assignmentOf: (compressedTask: Uint8Array) => Assignment | Promise<Assignment>;
};

/**
 * Opens a message and believes it only if the task says the same: identity and backend are computed again from
 * what was decrypted, and the subject must be that backend's, so that a message copied to another subject is
 * refused. Never rejects.
 */
export async function readMessage(
  { keyRing, assignmentOf }: MessageReader,
  bytes: Uint8Array,
  backend: BackendKind | undefined,
): Promise<Opened> {
  const opened = open(keyRing, bytes);
  if (opened.kind !== "assignment") return opened;
  const refused = (reason: string): Opened => ({
    kind: "invalid",
    reason,
    assignmentId: opened.assignment.id,
  });
  if (opened.assignment.backend !== backend) return refused("it lies under another backend's subject");
  try {
    const computed = await assignmentOf(opened.compressedTask);
    return sameAssignment(computed, opened.assignment)
      ? opened
      : refused("its task says otherwise than its envelope");
  } catch (error) {
    const reason = spoken(error);
    return refused(`its task makes no assignment${reason === undefined ? "" : `: ${reason}`}`);
  }
}

/** Only our own errors are known not to quote the task: a parser's would show its secrets. */
function spoken(error: unknown): string | undefined {
  return error instanceof InvalidAssignmentError || error instanceof IdentityError
    ? error.message
    : undefined;
}

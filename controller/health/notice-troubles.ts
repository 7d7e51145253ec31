import type { TroubleBoard } from "./troubles.ts";

/** A bootstrap that is refused calls again every second; so after this it has ended, or its calls are served. */
const refusedLastsMs = 60_000;

/**
 * To be called with every refused call: one with the SVID of a live assignment's job and a capability that no key
 * verifies says that we may have the wrong keys. It may also be the job itself that lies, so this is for the
 * operator's eyes, and nothing is to be restarted for it.
 */
export function noticeRefusedCall(
  board: Pick<TroubleBoard, "report">,
  { kind, assignment }: { readonly kind: string; readonly assignment: string | undefined },
): void {
  if (kind !== "capability" || assignment === undefined) return;
  const reason =
    "no key in CAPABILITY_KEY_FILE verifies the capability of an executor that has its job's SVID";
  board.report({ kind: "capability", about: assignment, reason, lastsMs: refusedLastsMs });
}

/** To be called with every answer of Gitea's, and with what it said no with. */
export function noticeAnswer(board: Pick<TroubleBoard, "report" | "over">, fault: string | undefined): void {
  const reason =
    "Gitea knows no runner with GITEA_RUNNER_UUID and the token in GITEA_RUNNER_TOKEN_FILE any more";
  if (fault === "unregistered") board.report({ kind: "unregistered", reason });
  // Other faults may come before Gitea has looked who asks.
  else if (fault === undefined) board.over("unregistered");
}

/** A message that waits for its key is delivered again every few seconds; so after this it has been opened, or is gone. */
const unreadableLastsMs = 60_000;

/** To be called with every delivery that is sealed with a key that we do not have. */
export function noticeUnknownKey(board: Pick<TroubleBoard, "report">, assignment: string | undefined): void {
  const reason = "a task in the queue is sealed with a key that CAPABILITY_KEY_FILE lacks";
  board.report({ kind: "unknown-key", about: assignment ?? "", reason, lastsMs: unreadableLastsMs });
}

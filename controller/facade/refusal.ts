import { Code, ConnectError } from "@connectrpc/connect";

/** Why a call was refused: a closed set, for counting. */
export const callRefusals = [
  // The session's certificate is no good SVID, or not any more.
  "peer",
  // No key verifies the capability for this SPIFFE ID and assignment.
  "capability",
  // Another attempt or instance has taken its place, or its task is over.
  "superseded",
  "foreign-task",
  "malformed",
  "register",
] as const;
export type CallRefusal = (typeof callRefusals)[number];

/** How far a caller has proved who it is. */
export type Standing = "nobody" | "job" | "attempt";

const denied: Readonly<Record<Standing, CallRefusal>> = {
  nobody: "peer",
  job: "capability",
  attempt: "foreign-task",
};

/** What a refused call was; undefined for one that was only put off or failed elsewhere. */
export function callRefusal(error: unknown, caller: Standing): CallRefusal | undefined {
  const { code } = ConnectError.from(error);
  if (code === Code.PermissionDenied) return denied[caller];
  if (code === Code.Unauthenticated) return "superseded";
  return code === Code.InvalidArgument || code === Code.FailedPrecondition ? "malformed" : undefined;
}

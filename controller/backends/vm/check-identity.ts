import type { ExecutorMetadata } from "../../assignment/executor-metadata.ts";
import { IdentityError } from "../../identity/errors.ts";
import { jobSpiffeId } from "../../identity/job-identity.ts";
import { BackendError } from "../backend.ts";

/**
 * The SPIFFE ID that stands on an executor must be the one that repository, job key and trust give: whatever gives it an
 * identity goes by what stands there. Throws a terminal BackendError of reason `identity` if it is not.
 */
export function checkIdentity(
  { assignment }: Pick<ExecutorMetadata, "assignment">,
  trustDomain: string,
): void {
  const { id, repository, jobKey, trust, spiffeId } = assignment;
  const expected = expectedId(trustDomain, repository, jobKey, trust);
  if (spiffeId === expected) return;
  throw new BackendError(
    "terminal",
    `the executor of ${id} says to be ${JSON.stringify(spiffeId)}; its repository, job key and trust give ${expected ?? "no identity"}`,
    { reason: "identity" },
  );
}

function expectedId(...of: Parameters<typeof jobSpiffeId>): string | undefined {
  try {
    return jobSpiffeId(...of);
  } catch (error) {
    if (error instanceof IdentityError) return undefined;
    throw error;
  }
}

import { describeError } from "../../controller/platform/errors.ts";

/** The message says all that the user needs; what caused it is left out where errors are shown. */
export class UserError extends Error {}

/** What to show of an error. What failed first comes first, and what failed while that was cleaned up comes after. */
export function explain(error: unknown): string {
  if (error instanceof SuppressedError) {
    const [first, then] = [explain(error.suppressed), explain(error.error)];
    return first === then ? first : `${first}; then ${then}`;
  }
  return error instanceof UserError ? error.message : describeError(error);
}

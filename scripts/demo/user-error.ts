import { describeError } from "../../controller/platform/errors.ts";

/** The message says all that the user needs; what caused it is left out where errors are shown. */
export class UserError extends Error {}

/** What to show of an error. */
export function explain(error: unknown): string {
  return error instanceof UserError ? error.message : describeError(error);
}

import { Code, ConnectError } from "@connectrpc/connect";

/**
 * - `denied`: we are not let do that, until an operator changes it.
 * - `refused`: what was asked for is wrong, and will be; nothing was done.
 * - `outage`: no answer, or none that tells anything: it may have been done.
 */
export type SpireServerTrouble = "denied" | "refused" | "outage";

/** Its message names the call and the server, and says what an operator has to do where only that helps. */
export class SpireServerError extends Error {
  override readonly name = "SpireServerError";
  readonly trouble: SpireServerTrouble;

  constructor(trouble: SpireServerTrouble, message: string, options?: ErrorOptions) {
    super(message, options);
    this.trouble = trouble;
  }
}

const denials: ReadonlySet<Code> = new Set([Code.PermissionDenied, Code.Unauthenticated]);
const refusals: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.AlreadyExists,
  Code.FailedPrecondition,
  Code.OutOfRange,
  Code.Unimplemented,
]);

/** What a server's answer means. A server that does not accept our certificate shows as `canceled`: an outage. */
export function troubleOf(error: unknown): SpireServerTrouble {
  const { code } = ConnectError.from(error);
  return denials.has(code) ? "denied" : refusals.has(code) ? "refused" : "outage";
}

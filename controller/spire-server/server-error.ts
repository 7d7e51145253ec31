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

/** What a server's answer means. A server that does not accept our certificate shows as `canceled`: an outage. */
export function troubleOf(error: unknown): SpireServerTrouble {
  switch (ConnectError.from(error).code) {
    case Code.PermissionDenied:
    case Code.Unauthenticated:
      return "denied";
    case Code.InvalidArgument:
    case Code.AlreadyExists:
    case Code.FailedPrecondition:
    case Code.OutOfRange:
    case Code.Unimplemented:
      return "refused";
    default:
      return "outage";
  }
}

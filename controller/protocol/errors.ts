import { Code, ConnectError } from "@connectrpc/connect";

/**
 * What Gitea meant by an error. It answers Connect code `unknown` for nearly everything, so the text decides;
 * a proxy in front, or a later Gitea, may use real codes, which are then transient here on purpose.
 *
 * - `unregistered`: our runner row is gone or the token is wrong. Fatal for the registration, not for the call.
 * - `gone`: the task is not ours or no longer exists. Terminal for the task.
 * - `log-archived`: the task's log is closed. Terminal for its rows; they count as stored.
 * - `log-trouble`: Gitea's store of logs does not work. May pass; the caller bounds its tries, for a result must
 *   not wait for rows for ever.
 * - `transient`: anything else. The caller tries again.
 */
export type GiteaFault = "unregistered" | "gone" | "log-archived" | "log-trouble" | "transient";

export class GiteaError extends Error {
  override readonly name = "GiteaError";
  readonly fault: GiteaFault;
  /** Whether Gitea itself has said so; if not, what was asked may have taken effect. */
  readonly answered: boolean;

  constructor(fault: GiteaFault, message: string, options?: ErrorOptions & { readonly answered?: boolean }) {
    super(message, options);
    this.fault = fault;
    this.answered = options?.answered ?? fault !== "transient";
  }
}

const faults: readonly (readonly [RegExp, GiteaFault])[] = [
  [/unregistered runner$/, "unregistered"],
  [/Runner is deleted$/, "unregistered"],
  [/invalid runner for task/, "gone"],
  // Not "pick task: … resource does not exist": a deleted run in the way of FetchTask says nothing of a task.
  [/(update|get) task: .*resource does not exist/, "gone"],
  [/log file has been archived/, "log-archived"],
  [/desc = (transfer logs|write logs|unable to append logs)/, "log-trouble"],
];

/** What our client makes of a page that is none of Gitea's API: a proxy's, a login, a redirection to one. */
const noAnswer = /^(HTTP \d{3}$|unsupported content type )/;

/** The one place where a failed call to Gitea becomes an error of ours; `doing` says what was tried. */
export function fromGitea(doing: string, error: unknown): GiteaError {
  const { rawMessage, code } = ConnectError.from(error);
  const fault = faults.find(([text]) => text.test(rawMessage))?.[1] ?? "transient";
  // Gitea's code for nearly everything; gateways and broken connections have others, but for some of their pages.
  const said = error instanceof ConnectError && code === Code.Unknown && !noAnswer.test(rawMessage);
  const answered = fault !== "transient" || said;
  return new GiteaError(fault, `${doing} (code ${code})`, { cause: error, answered });
}

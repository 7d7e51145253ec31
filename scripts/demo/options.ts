import { parseArgs } from "node:util";
import { UserError } from "./user-error.ts";

export type DemoOptions = {
  /** Ends when the jobs have; otherwise everything stays up until it is interrupted. */
  readonly exit: boolean;
  /** Leaves the folder, and what was made in a Gitea of one's own, for looking. */
  readonly keep: boolean;
  readonly workload:
    | { readonly kind: "example" }
    | { readonly kind: "many"; readonly jobs: number }
    | { readonly kind: "file"; readonly file: string };
  /** A Gitea of one's own, without a slash at the end. */
  readonly gitea: { readonly url: string; readonly tokenFile: string } | undefined;
};

/** The command line makes no sense; the message says why. */
export class UsageError extends UserError {}

const mostJobs = 100;

export const help = `Usage: npm run demo [-- OPTIONS]

Starts a real Gitea, a real NATS JetStream and the controller on this machine, pushes an example repository, and shows
how its jobs run in throw-away executors: "needs" with outputs, a matrix on both backends, a secret, and a step that
may fail. Everything is on loopback and below one temporary folder. On a terminal a table shows each job's way with
the seconds that each stage took; elsewhere there is a line for each thing that happens. Gitea's own word decides: the
demo ends with code 0 only if every job was a success there, with 1 otherwise, and with 130 after Ctrl-C.

  --exit             ends when the jobs have; otherwise all stays up, with Gitea's address and a login for the
                     browser, until Ctrl-C
  --jobs N           pushes N small jobs at once (1 to ${mostJobs}), in turns for pod and vm, instead of the example
  --workflow FILE    pushes this workflow instead; it has to be for pushes
  --gitea URL        uses a Gitea of yours (1.27 or newer), which has to be reachable from here; NATS and the
                     controller still run here, and so do the jobs, as plain processes of this machine
  --token-file F     holds an access token for it, with the scopes write:user and write:repository. A private
                     repository is made, and a runner for that repository only; both are removed at the end
  --keep             leaves the folder with all logs (and secrets), and what was made in your Gitea; DEMO_KEEP=1 too
  -h, --help         this text

The stages: waiting (Gitea has the job) - queued (it is stored in JetStream) - executor (one was started for it) -
identity (it can get its SPIFFE identity) - claimed (it has its task) - running (the first step has begun) - done.

Executors at once are POD_CAPACITY (4) and VM_CAPACITY (1). NO_COLOR leaves out the colours. A second Ctrl-C kills
what the first one only asked to end; nothing is left either way.

The first time Gitea is compiled, which takes about five minutes on two cores. "npm run peers -- --help" says how
to use programs that are there already.
`;

/** Reads the command line. Throws a UsageError. */
export function parseOptions(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = {},
): DemoOptions | "help" {
  const { values } = parse(args);
  if (values.help === true) return "help";
  const given = environment["DEMO_KEEP"] ?? "";
  return {
    exit: values.exit === true,
    keep: values.keep === true || (given !== "" && given !== "0"),
    workload: workloadOf(values),
    gitea: giteaOf(values),
  };
}

type Values = ReturnType<typeof parse>["values"];

function parse(args: readonly string[]) {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const short = { type: "boolean", short: "h" } as const;
  const options = { exit: flag, keep: flag, help: short, jobs: text, workflow: text, gitea: text };
  try {
    return parseArgs({ args: [...args], options: { ...options, "token-file": text } });
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}

function workloadOf({ jobs, workflow }: Values): DemoOptions["workload"] {
  if (jobs !== undefined && workflow !== undefined)
    throw new UsageError("--jobs and --workflow exclude each other");
  if (workflow !== undefined) return { kind: "file", file: workflow };
  if (jobs === undefined) return { kind: "example" };
  const count = /^\d{1,4}$/.test(jobs) ? Number(jobs) : 0;
  if (count < 1 || count > mostJobs)
    throw new UsageError(`--jobs ${jobs}: it is a whole number from 1 to ${mostJobs}`);
  return { kind: "many", jobs: count };
}

function giteaOf({ gitea, "token-file": tokenFile }: Values): DemoOptions["gitea"] {
  if (gitea === undefined && tokenFile === undefined) return undefined;
  if (gitea === undefined) throw new UsageError("--token-file needs --gitea");
  if (tokenFile === undefined) throw new UsageError("--gitea needs --token-file");
  const url = URL.parse(gitea);
  if (url === null || !["http:", "https:"].includes(url.protocol))
    throw new UsageError("--gitea: it is no http or https address");
  // The address is shown, and a password in it would be as well.
  if (url.username !== "" || url.password !== "")
    throw new UsageError("--gitea: a login does not belong into the address; take --token-file");
  return { url: `${url.origin}${url.pathname.replace(/\/+$/, "")}`, tokenFile };
}

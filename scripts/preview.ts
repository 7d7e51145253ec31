import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { onPath } from "./peers/find-peer.ts";
import { runToEnd } from "./peers/run-to-end.ts";
import { commentOf, type Plan, planOf } from "./preview/plan.ts";

const help = `Usage: npm run --silent preview -- <stack>

Says what pulumi up would change on a stack, and changes nothing. On stdout there is a comment in Markdown; if there is
no plan the reason is on stderr as well, and the exit code is 1. Needs the same rights and secrets as pulumi up.

Unlike a plain pulumi preview it looks at what is there, not only at what Pulumi remembers, with the addresses that the
program says now. So it fails where NATS or the cluster cannot be reached.

Environment:
  PATH                            pulumi, and its pulumi-language-nodejs
  PULUMI_BACKEND_URL, PULUMI_CONFIG_PASSPHRASE, PULUMI_ACCESS_TOKEN, KUBECONFIG, …   as for pulumi up
`;

const deadlineMs = 15 * 60_000;
/** The project of the current folder; npm makes it the repository. */
const folder = process.cwd();

/** Flags of the CLI that make a preview honest, and its output one for a file. */
const flags = ["--refresh", "--run-program", "--diff", "--non-interactive", "--color", "never"] as const;

process.exitCode = await main();

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.help === true) {
    process.stdout.write(help);
    return 0;
  }
  const [stack, ...rest] = positionals;
  if (stack === undefined || rest.length > 0) {
    process.stderr.write("preview: name one stack, as in npm run preview -- prod; --help tells more\n");
    return 2;
  }
  try {
    return await preview(stack);
  } catch (error) {
    return tell(stack, { planned: false, reason: describeError(error), details: "" });
  }
}

function parse() {
  try {
    return parseArgs({ allowPositionals: true, options: { help: { type: "boolean", short: "h" } } });
  } catch {
    // An option that there is none: the same sentence as for no stack.
    return { values: {}, positionals: [] };
  }
}

async function preview(stack: string): Promise<number> {
  const program = await onPath("pulumi", process.env);
  if (program === undefined)
    throw new Error("pulumi is not on PATH: install it, https://www.pulumi.com/docs/iac/download-install/");
  const interrupt = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => interrupt.abort(new Error(`interrupted by ${name}`)));
  const args = ["preview", "--stack", stack, ...flags];
  const command = { program, args, folder, environment: process.env, deadline: deadlineMs };
  return tell(stack, planOf(stack, await runToEnd(command, interrupt.signal)));
}

/** Returns the exit code. */
function tell(stack: string, plan: Plan): number {
  process.stdout.write(commentOf(stack, plan));
  if (plan.planned) return 0;
  process.stderr.write(`preview: ${plan.reason}\n`);
  return 1;
}

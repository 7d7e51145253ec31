import type { Outcome } from "../peers/run-to-end.ts";
import { withoutPasswords } from "./without-passwords.ts";

/** A plan, or why there is none. */
export type Plan =
  | { readonly planned: true; readonly summary: string; readonly details: string }
  | { readonly planned: false; readonly reason: string; readonly details: string };

/** What the CLI says where there is no plan, and the sentence for whoever asked for one. */
const reasons: readonly (readonly [pattern: RegExp, reason: (stack: string, words: string) => string])[] = [
  [
    /no stack named '[^']*' found/,
    (stack) => `there is no stack ${stack}: pulumi stack init ${stack} makes it`,
  ],
  [
    /jetstream: no connection to [^\n]*/,
    (_stack, words) => `NATS cannot be reached, so nobody knows what is there (${words})`,
  ],
  [
    /nobody could look whether [^\n]*/,
    (_stack, words) => `NATS cannot be asked, so nobody knows what is there (${words})`,
  ],
  [
    /unreachable cluster|cluster is unreachable/,
    () => "the cluster cannot be reached, so nobody knows what is there",
  ],
  [/the stack's configuration is not usable/, () => "the stack's configuration is not usable"],
  [
    /passphrase must be set|incorrect passphrase/,
    () => "the stack's secrets cannot be read: set PULUMI_CONFIG_PASSPHRASE, or the file of it",
  ],
];

/** Reads how `pulumi preview` ended. A warning that something could not be asked is no plan, whatever the exit code. */
export function planOf(stack: string, { exitCode, stdout, stderr }: Outcome): Plan {
  const details = tidy(`${stdout}\n${stderr}`);
  for (const [pattern, reason] of reasons) {
    const found = pattern.exec(details);
    if (found !== null) return { planned: false, reason: reason(stack, found[0]), details };
  }
  if (exitCode !== 0)
    return { planned: false, reason: `pulumi preview failed (${exitCode ?? "killed"})`, details };
  return { planned: true, summary: summaryOf(stdout), details };
}

/** As a comment in Markdown, whose first lines say all that matters. */
export function commentOf(stack: string, plan: Plan): string {
  const verdict = plan.planned ? plan.summary : `**No plan:** ${plan.reason}.`;
  const fence = fenceFor(plan.details);
  const details = plan.details === "" ? [] : ["", fence, plan.details, fence];
  return [`## Plan of stack ${stack}`, "", verdict, ...details, ""].join("\n");
}

/** The counts of the CLI's summary: `2 to create, 1 to update, 7 unchanged`. */
function summaryOf(stdout: string): string {
  const [, summary = ""] = stdout.split(/^Resources:$/m);
  const counts = [...summary.matchAll(/^\s+(?:[-+~=<>]+ ?)?(\d+ (?:to \S+|changes|unchanged).*)$/gm)];
  return counts.length === 0 ? "Nothing would change." : `${counts.map(([, count]) => count).join(", ")}.`;
}

/** Without passwords, as it is shown to whoever sees a job's log, without the lines that only say that it goes on, which begin with @, and the gaps that they leave. */
function tidy(output: string): string {
  return withoutPasswords(output)
    .replaceAll(/^@.*\n/gm, "")
    .replaceAll(/\n{3,}/g, "\n\n")
    .trim();
}

/** Longer than any in the text: what is in it does not end the block. */
function fenceFor(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  return "`".repeat(longest + 1);
}

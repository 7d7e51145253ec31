import * as z from "zod";
import type { Gitea } from "../start-gitea.ts";

/** What a runner shows with every call. */
export type RegisteredRunner = { readonly id: string; readonly uuid: string; readonly token: string };

export type RunnerDescription = {
  readonly name: string;
  /** Bare label names, as `runs-on` writes them. */
  readonly labels: readonly string[];
  /** Owner (`alice`) or repository (`alice/tool`) whose jobs it takes; everybody's unless given. */
  readonly scope?: string;
};

const answerDeadlineMs = 120_000;
// The JSON form of the protocol writes 64-bit numbers as strings.
const answerSchema = z.object({
  runner: z.object({ id: z.string(), uuid: z.uuid(), token: z.string().min(1) }),
});

/** Registers a runner as an operator does once: a registration token from the command line, exchanged for the runner's own. */
export async function registerRunner(
  gitea: Gitea,
  runner: RunnerDescription,
  signal: AbortSignal,
): Promise<RegisteredRunner> {
  const scope = runner.scope === undefined ? [] : ["--scope", runner.scope];
  const output = await gitea.command(["actions", "generate-runner-token", ...scope], signal);
  return await exchangeToken(gitea.url, output.trim().split("\n").at(-1) ?? "", runner, signal);
}

/** Exchanges a registration token for a runner's own. */
export async function exchangeToken(
  url: string,
  token: string,
  runner: Omit<RunnerDescription, "scope">,
  signal: AbortSignal,
): Promise<RegisteredRunner> {
  const response = await fetch(`${url}/api/actions/runner.v1.RunnerService/Register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: runner.name, token, labels: runner.labels, version: "0.0.0" }),
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerDeadlineMs)]),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`registering the runner: ${response.status} ${text.slice(0, 500)}`);
  return answerSchema.parse(JSON.parse(text)).runner;
}

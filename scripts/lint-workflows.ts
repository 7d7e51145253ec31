import { globSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { type Linter, lintersFor, workflowPatterns } from "./lint-workflows/linters.ts";
import { onPath } from "./peers/find-peer.ts";
import { findPeer } from "./peers/prepare-peer.ts";
import { runToEnd } from "./peers/run-to-end.ts";

const help = `Usage: npm run lint:workflows

Reads the workflows of this repository, and that of the demo, with yamllint and with actionlint, which reads the scripts in
them with shellcheck. If one of the three is missing it says how to get it, and the exit code is 1.

  yamllint, shellcheck    on PATH
  actionlint              as the other peers: npm run peers -- actionlint
`;

const deadlineMs = 2 * 60_000;
const top = path.join(import.meta.dirname, "..");

const { values } = parseArgs({ options: { help: { type: "boolean", short: "h" } } });
if (values.help === true) process.stdout.write(help);
else process.exitCode = await lint();

async function lint(): Promise<number> {
  const signal = AbortSignal.timeout(deadlineMs);
  const files = workflowPatterns.flatMap((pattern) => globSync(pattern, { cwd: top })).toSorted();
  const shellcheck = await onPath("shellcheck", process.env);
  const missing = shellcheck === undefined ? ["shellcheck is not on PATH: apt install shellcheck"] : [];
  const ready: { readonly linter: Linter; readonly program: string }[] = [];
  for (const linter of lintersFor(files, shellcheck ?? "")) {
    const program = await find(linter.name, signal);
    if (program === undefined) missing.push(`${linter.name} is missing: ${linter.remedy}`);
    else ready.push({ linter, program });
  }
  for (const line of missing) process.stderr.write(`lint:workflows: ${line}\n`);
  if (missing.length > 0) return 1;
  let failed = false;
  for (const { linter, program } of ready) failed = !(await passes(linter, program, signal)) || failed;
  if (!failed) process.stdout.write(`${files.length} workflows are as they should be\n`);
  return failed ? 1 : 0;
}

async function find(name: string, signal: AbortSignal): Promise<string | undefined> {
  if (name !== "actionlint") return await onPath(name, process.env);
  return (await findPeer("actionlint", {}, signal))?.binary;
}

/** Prints what it says. */
async function passes(linter: Linter, program: string, signal: AbortSignal): Promise<boolean> {
  try {
    const command = {
      program,
      args: linter.args,
      folder: top,
      environment: process.env,
      deadline: deadlineMs,
    };
    const { exitCode, stdout, stderr } = await runToEnd(command, signal);
    process.stdout.write(stdout);
    process.stderr.write(stderr);
    return exitCode === 0;
  } catch (error) {
    process.stderr.write(`lint:workflows: ${describeError(error)}\n`);
    return false;
  }
}

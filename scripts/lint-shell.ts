import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, lstatSync, openSync, readSync } from "node:fs";
import { parseArgs } from "node:util";

const help = `Usage: npm run lint:shell [-- --write]

Checks every shell script that git knows here with shellcheck and shfmt: the files ending in .sh, and those whose first line
names sh or bash. Ends with 0 when nothing is found, with 1 when something is, and with 2 when a tool is missing.

  --write    let shfmt correct what it finds
`;

/** A tool, how it is told to check, and how to correct. */
const tools = [
  { name: "shellcheck", check: [], write: [] },
  { name: "shfmt", check: ["-i", "2", "-ci", "-d"], write: ["-i", "2", "-ci", "-l", "-w"] },
] as const;

const { values } = parseArgs({
  options: { help: { type: "boolean", short: "h" }, write: { type: "boolean" } },
});
if (values.help === true) process.stdout.write(help);
else process.exitCode = lint(values.write === true);

function lint(write: boolean): number {
  const missing = tools.map(({ name }) => name).filter((name) => !isThere(name));
  if (missing.length > 0) {
    process.stderr.write(
      `${missing.join(" and ")} not on PATH: apt-get install --no-install-recommends ${missing.join(" ")}\n`,
    );
    return 2;
  }
  const files = shellScripts();
  if (files.length === 0) {
    process.stderr.write("git knows no shell script here\n");
    return 1;
  }
  let exitCode = 0;
  for (const tool of tools) {
    const args = [...(write ? tool.write : tool.check), "--", ...files];
    if (spawnSync(tool.name, args, { stdio: ["ignore", "inherit", "inherit"] }).status !== 0) exitCode = 1;
  }
  if (exitCode === 0) process.stdout.write(`${files.length} shell scripts, nothing found\n`);
  return exitCode;
}

function isThere(tool: string): boolean {
  return spawnSync(tool, ["--version"], { stdio: "ignore" }).error === undefined;
}

/** Also those that are new and not ignored, as a person has them before a commit. */
function shellScripts(): readonly string[] {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const files = execFileSync("git", args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 }).split("\0");
  return files.filter((file) => file !== "" && isShellScript(file));
}

function isShellScript(file: string): boolean {
  // One that is removed and not committed yet is known to git as well.
  if (lstatSync(file, { throwIfNoEntry: false })?.isFile() !== true) return false;
  return file.endsWith(".sh") || /^#!.*\b(?:ba|da)?sh\b/.test(firstLine(file));
}

function firstLine(file: string): string {
  const start = Buffer.alloc(80);
  const opened = openSync(file, "r");
  const length = readSync(opened, start);
  closeSync(opened);
  return start.toString("utf8", 0, length).split("\n")[0] ?? "";
}

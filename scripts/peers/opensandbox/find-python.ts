import { onPath } from "../find-peer.ts";
import { runCommand } from "../run-command.ts";

/** A Python that can install and run the server. */
export type Python = {
  readonly program: string;
  /** As in `3.11`: what is installed for one is not for another. */
  readonly version: string;
};

const leastMinor = 10;
const deadline = 90_000;
/** What is on PATH may be a script that chooses one by the folder it is called in. */
const askWhich = "import sys; print('%d.%d %s' % (*sys.version_info[:2], sys.executable))";

/** What to do where there is no Python that can. */
export const pythonRemedy =
  `install Python 3.${leastMinor} or newer with pip (Debian: apt-get install python3-pip), ` +
  "or set OPENSANDBOX_SERVER_BINARY to an opensandbox-server";

/** `python3` of PATH. Rejects, saying what to install, when there is none, when it is too old and when it has no pip. */
export async function findPython(environment: NodeJS.ProcessEnv, signal: AbortSignal): Promise<Python> {
  const fault = (what: string, cause?: unknown) =>
    new Error(`opensandbox-server needs Python, and ${what}: ${pythonRemedy}`, { cause });
  const found = await onPath("python3", environment);
  if (found === undefined) throw fault("python3 is not on PATH");
  const ask = async (program: string, args: readonly string[], otherwise: string) => {
    try {
      return (await runCommand({ program, args, environment, deadline }, signal)).trim();
    } catch (error) {
      signal.throwIfAborted();
      throw fault(`${program} ${otherwise}`, error);
    }
  };
  const [, version = "", program = ""] =
    /^(\S+) (.+)$/.exec(await ask(found, ["-c", askWhich], "does not run")) ?? [];
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major !== 3 || minor < leastMinor) throw fault(`${found} is Python ${version}`);
  await ask(program, ["-m", "pip", "--version"], "has no pip");
  return { program, version };
}

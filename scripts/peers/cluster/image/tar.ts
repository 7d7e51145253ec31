import { runCommand } from "../../run-command.ts";
import { debianProgram, systemEnvironment } from "../obstacle.ts";

const deadline = 5 * 60_000;

/** Writes a layer of what lies in the folder: root's, without times, in one order, so that the same content is the same tar. */
export async function writeTar(
  file: string,
  folder: string,
  more: readonly string[],
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<void> {
  const program = await debianProgram("tar", environment);
  const fixed = ["--owner=0", "--group=0", "--sort=name", "--mtime=@0", "--hard-dereference"];
  const args = ["-cf", file, "-C", folder, ...fixed, ...more];
  await runCommand({ program, args, environment: systemEnvironment(environment), deadline }, signal);
}

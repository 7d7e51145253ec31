import { z } from "zod";
import type { Pin } from "./pin.ts";
import { runCommand } from "./run-command.ts";

const deadline = 10 * 60_000;
const downloaded = z.object({ Dir: z.string().min(1) });

/** Folder with the source of a module in a peer's go.mod, in the version that stands there; Go loads it if need be. */
export async function moduleFolder(
  go: string,
  module: string,
  { folder }: Pick<Pin, "folder">,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string> {
  const args = ["mod", "download", "-json", module];
  const answer = await runCommand({ program: go, args, folder, environment, deadline }, signal);
  return downloaded.parse(JSON.parse(answer)).Dir;
}

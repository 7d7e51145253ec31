import { closedFolder } from "./files.ts";

/** Throws, saying why, where the local backend cannot or must not run: outside Linux and in production. */
export function checkHost(platform: string, nodeEnv: string | undefined): void {
  if (platform !== "linux")
    throw new Error(`the local backend needs Linux and its /proc, this is ${platform}`);
  if (nodeEnv === "production")
    throw new Error("the local backend runs jobs without isolation and is refused with NODE_ENV=production");
}

/** Rejects, naming the folder to open or move, when users other than ours cannot pass through to one of these. */
export async function checkReachable(folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const closed = await closedFolder(folder);
    if (closed !== undefined)
      throw new Error(
        `${closed} is closed to other users, but each executor runs as one of them and must reach ${folder}: ` +
          "choose a state folder elsewhere, or open it with chmod o+x",
      );
  }
}

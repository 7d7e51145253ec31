import { homedir } from "node:os";
import { join } from "node:path";

/** Where built peers are kept: `GITEA_DYNAMIC_RUNNER_CACHE`, else below `XDG_CACHE_HOME`, else below `~/.cache`. */
export function cacheFolder(environment: NodeJS.ProcessEnv): string {
  const own = environment["GITEA_DYNAMIC_RUNNER_CACHE"];
  if (own !== undefined && own !== "") return own;
  const shared = environment["XDG_CACHE_HOME"];
  const base =
    shared !== undefined && shared !== "" ? shared : join(environment["HOME"] ?? homedir(), ".cache");
  return join(base, "gitea-dynamic-runner");
}

/** A peer's folder in the cache; another version or platform is another folder. */
export function peerFolder(environment: NodeJS.ProcessEnv, name: string, version: string): string {
  return join(cacheFolder(environment), `${name}-${version}-${process.platform}-${process.arch}`);
}

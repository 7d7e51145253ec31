import { randomBytes } from "node:crypto";
import type { Gitea } from "../start-gitea.ts";
import type { GiteaApi } from "./client.ts";

/** A user who can do everything, by token and by password. */
export type GiteaAdmin = GiteaApi & { readonly user: string; readonly password: string };

/** Creates an administrator with an access token; call it once for a name. The password is random unless given. */
export async function createAdmin(
  gitea: Gitea,
  options: { readonly user?: string; readonly password?: string },
  signal: AbortSignal,
): Promise<GiteaAdmin> {
  const { user = "admin1", password = randomBytes(18).toString("base64url") } = options;
  const who = ["--username", user, "--password", password, "--email", `${user}@example.invalid`];
  const what = ["--admin", "--must-change-password=false", "--access-token", "--access-token-scopes", "all"];
  const output = await gitea.command(["admin", "user", "create", ...who, ...what], signal);
  const token = /successfully created\W+([0-9a-f]{40})\b/.exec(output)?.[1];
  if (token === undefined) throw new Error(`gitea admin user create printed no access token`);
  return { url: gitea.url, user, password, token };
}

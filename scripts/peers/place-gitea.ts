import { chown, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { GiteaSecrets, GiteaSettings } from "./gitea-settings.ts";
import {
  formatSettings,
  giteaSecretsSchema,
  giteaSettings,
  mergeSettings,
  newGiteaSecrets,
} from "./gitea-settings.ts";
import type { GiteaPeer } from "./peer.ts";
import { openFolder, stageBinary, stageFolder } from "./stage.ts";

/** A Gitea that is ready to run as its user. */
export type PlacedGitea = {
  readonly binary: string;
  readonly staticRoot: string | undefined;
  /** Folder of its own that Gitea writes to; nobody else reads it. */
  readonly work: string;
  /** Undefined: our own user. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
};

/** Not given to any user by a distribution, and outside the range of the executors. */
const defaultUid = 60_578;

/**
 * Lays out the run folder. Gitea refuses to run as root: under root it gets a uid, and what it reads is put where that uid can
 * reach it.
 */
export async function placeGitea(
  peer: GiteaPeer,
  folder: string,
  uid: number = defaultUid,
): Promise<PlacedGitea> {
  const { binary, staticRoot } = peer;
  const work = join(folder, "gitea");
  await mkdir(work, { recursive: true, mode: 0o700 });
  if (process.getuid?.() !== 0) return { binary, staticRoot, work, user: undefined };
  await openFolder(folder);
  await chown(work, uid, uid);
  return {
    binary: await stageBinary(binary, join(folder, "bin")),
    staticRoot: staticRoot === undefined ? undefined : await stageFolder(staticRoot, folder, "static"),
    work,
    user: { uid, gid: uid },
  };
}

/** Writes app.ini, readable for the server's user only, with the secrets of an earlier start if there was one. */
export async function writeConfiguration(
  program: PlacedGitea,
  listen: { readonly address: string; readonly port: number },
  more: GiteaSettings,
): Promise<string> {
  const { work, staticRoot, user } = program;
  const secretsFile = join(work, "secrets.json");
  const secrets = (await readSecrets(secretsFile)) ?? newGiteaSecrets();
  const settings = mergeSettings(giteaSettings({ folder: work, ...listen, staticRoot, secrets }), more);
  const configuration = join(work, "app.ini");
  await writeFile(secretsFile, JSON.stringify(secrets), { mode: 0o600 });
  await writeFile(configuration, formatSettings(settings), { mode: 0o600 });
  if (user !== undefined) await chown(configuration, user.uid, user.gid);
  return configuration;
}

async function readSecrets(file: string): Promise<GiteaSecrets | undefined> {
  try {
    return giteaSecretsSchema.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`cannot read ${file}`, { cause: error });
  }
}

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";

/** Sections of Gitea's app.ini, each with its keys; the nameless section is "". */
export type GiteaSettings = Readonly<Record<string, Readonly<Record<string, string>>>>;

export type GiteaPlace = {
  /** Everything that the server writes is below it. */
  readonly folder: string;
  /** What it listens on, and is known by. */
  readonly address: string;
  readonly port: number;
  readonly staticRoot: string | undefined;
  readonly secrets: GiteaSecrets;
};

const secretSchema = z.string().min(32);

/** They stay the same as long as the data does: what one start signed or encrypted the next one reads. */
export const giteaSecretsSchema = z.object({
  key: secretSchema,
  internalToken: secretSchema,
  jwt: secretSchema,
});
export type GiteaSecrets = z.infer<typeof giteaSecretsSchema>;

/** New random secrets. */
export function newGiteaSecrets(): GiteaSecrets {
  const secret = () => randomBytes(32).toString("base64url");
  return { key: secret(), internalToken: secret(), jwt: secret() };
}

/** A small server that needs nothing from outside: sqlite, no mail, no ssh, no look at the network. */
export function giteaSettings(place: GiteaPlace): GiteaSettings {
  const { folder, address, port, staticRoot, secrets } = place;
  return {
    "": { APP_NAME: "Gitea", RUN_MODE: "prod", WORK_PATH: folder },
    server: {
      HTTP_ADDR: address,
      HTTP_PORT: String(port),
      ROOT_URL: `http://${address}:${port}/`,
      APP_DATA_PATH: join(folder, "data"),
      OFFLINE_MODE: "true",
      DISABLE_SSH: "true",
      ...(staticRoot === undefined ? {} : { STATIC_ROOT_PATH: staticRoot }),
    },
    database: { DB_TYPE: "sqlite3", PATH: join(folder, "data", "gitea.db"), SQLITE_JOURNAL_MODE: "WAL" },
    security: { INSTALL_LOCK: "true", SECRET_KEY: secrets.key, INTERNAL_TOKEN: secrets.internalToken },
    oauth2: { JWT_SECRET: secrets.jwt },
    service: { DISABLE_REGISTRATION: "true" },
    repository: { DEFAULT_BRANCH: "main" },
    indexer: { ISSUE_INDEXER_TYPE: "db" },
    log: { MODE: "console", LEVEL: "info", ROOT_PATH: join(folder, "log") },
    actions: { ENABLED: "true" },
    "cron.update_checker": { ENABLED: "false" },
  };
}

/** Keys of `more` replace those of the same section or come in addition. */
export function mergeSettings(settings: GiteaSettings, more: GiteaSettings): GiteaSettings {
  const merged: Record<string, Readonly<Record<string, string>>> = { ...settings };
  for (const [section, keys] of Object.entries(more)) merged[section] = { ...merged[section], ...keys };
  return merged;
}

/** The text of app.ini. */
export function formatSettings(settings: GiteaSettings): string {
  const blocks = Object.entries(settings).map(([section, keys]) => {
    const lines = Object.entries(keys).map(([key, value]) => `${key} = ${value}`);
    return [...(section === "" ? [] : [`[${section}]`]), ...lines].join("\n");
  });
  return `${blocks.join("\n\n")}\n`;
}

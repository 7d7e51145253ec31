import type { Place } from "./place.ts";

type Seen = Pick<Place, "api" | "repository" | "login" | "noPages" | "controllerLog">;

/** Where to look while everything stays up. */
export function stillUp(place: Seen, run: string): readonly string[] {
  const { api, repository, login, noPages, controllerLog } = place;
  const { protocol, host, pathname } = new URL(api.url);
  const who = login === undefined ? "" : `${login.user}:${login.password}@`;
  const clone = `${protocol}//${who}${host}${pathname.replace(/\/$/, "")}/${repository.owner}/${repository.name}.git`;
  return [
    "",
    "Still up, until Ctrl-C",
    `  the run        ${run}${noPages === undefined ? "" : ` (no web page: ${noPages})`}`,
    ...(login === undefined ? [] : [`  login          ${login.user} / ${login.password}`]),
    `  push anything  git clone ${clone}`,
    `  controller     ${controllerLog}`,
  ];
}

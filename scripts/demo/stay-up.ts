import type { Place } from "./place.ts";

/** Where to look while everything stays up. */
export function stillUp(place: Place, run: string): readonly string[] {
  const { api, repository, login, noPages, controllerLog } = place;
  const { protocol, host, pathname } = new URL(api.url);
  const who = login === undefined ? "" : `${login.user}:${login.password}@`;
  const clone = `${protocol}//${who}${host}${pathname.replace(/\/$/, "")}/${repository.owner}/${repository.name}.git`;
  return [
    "",
    "Still up, until Ctrl-C",
    `  the run        ${run}${noPages === undefined ? "" : ` (the page was not built: ${noPages})`}`,
    ...(login === undefined ? [] : [`  login          ${login.user} / ${login.password}`]),
    `  push anything  git clone ${clone}`,
    `  controller     ${controllerLog}`,
  ];
}

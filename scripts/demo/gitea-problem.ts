import * as z from "zod";
import { GiteaRefusal } from "../peers/gitea-api/client.ts";

/** The oldest release that has what the demo asks for, and that the controller was tried with. */
export const oldestGitea = [1, 27] as const;

const scopes = "write:user and write:repository";

/** What to tell somebody whose Gitea said no, or nothing, while `doing` was done. */
export function giteaProblem(url: string, doing: string, error: unknown): string {
  if (error instanceof SyntaxError || error instanceof z.ZodError)
    return `${url} answered ${doing} with something unknown: is it a Gitea?`;
  if (!(error instanceof GiteaRefusal)) return `${url} cannot be reached: ${networkReason(error)}`;
  const said = messageOf(error.answer);
  switch (error.status) {
    case 401:
      return `${url} does not accept the token (401: ${said})`;
    case 403:
      return `${url} refused ${doing} (403: ${said}); the token needs the scopes ${scopes}`;
    default:
      return `${url} refused ${doing} (${error.status}: ${said})`;
  }
}

/** What is wrong with a version, as `/api/v1/version` tells it; undefined if nothing is. */
export function versionProblem(version: string): string | undefined {
  if (version.includes("+gitea-")) return `it is Forgejo ${version}, which speaks another runner protocol`;
  const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  if (Number.isNaN(major) || Number.isNaN(minor)) return `it tells no version that is known here: ${version}`;
  const [wantedMajor, wantedMinor] = oldestGitea;
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return undefined;
  return `Gitea ${version} is too old: ${oldestGitea.join(".")} or newer is needed`;
}

/** The reason at the end of the chain: `fetch` itself says no more than that it failed. */
function networkReason(error: unknown): string {
  let last: unknown = error;
  while (last instanceof Error && last.cause !== undefined) last = last.cause;
  if (!(last instanceof Error)) return "unknown error";
  const { code } = last as NodeJS.ErrnoException;
  return last.message === "" ? (code ?? last.name) : last.message;
}

/** Gitea answers errors as JSON with a message; a proxy before it may not. */
function messageOf(answer: string): string {
  try {
    const { message } = JSON.parse(answer) as { readonly message?: unknown };
    if (typeof message === "string" && message !== "") return message;
  } catch {
    // Shown as it is.
  }
  return answer.replace(/\s+/g, " ").trim().slice(0, 200);
}

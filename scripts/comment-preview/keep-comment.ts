import * as z from "zod";
import { askGitea, askGiteaForText, type GiteaApi, GiteaRefusal } from "../peers/gitea-api/client.ts";
import { type Repository, repositoryPath } from "../peers/gitea-api/repository.ts";
import { type Comment, ownComment } from "./own-comment.ts";

export type Place = { readonly repository: Repository; readonly pull: number };

/** What has become of a comment; a pull request that is closed gets none. */
export type Kept = { readonly kind: "created" | "edited"; readonly id: number } | { readonly kind: "closed" };

const userSchema = z.object({ id: z.int() });
const pullSchema = z.object({ state: z.string() });
const commentSchema = z.object({ id: z.int(), body: z.string(), user: userSchema.nullish() });

const pageSize = 50;
/** Of 50: nobody reads more, and a server that makes up ever new ones is not asked for ever. */
const maximumPages = 200;

/**
 * Makes a comment on a pull request, or makes the one that is there say this. Of several callers at once each may make one: let only
 * one job at a time run. Rejects with Gitea's refusal; nothing was changed then.
 */
export async function keepComment(
  api: GiteaApi,
  place: Place,
  comment: { readonly marker: string; readonly body: string },
  signal: AbortSignal,
): Promise<Kept> {
  const path = repositoryPath(place.repository);
  const ask = <T>(request: Parameters<typeof askGitea>[1], schema: z.ZodType<T>) =>
    askGitea(api, request, schema, signal);
  const { state } = await ask({ method: "GET", path: `${path}/pulls/${place.pull}` }, pullSchema);
  if (state !== "open") return { kind: "closed" };
  const { id: author } = await ask({ method: "GET", path: "/user" }, userSchema);
  const own = ownComment(await listComments(api, place, signal), { author, marker: comment.marker });
  const { body } = comment;
  if (own !== undefined && (await edit(api, `${path}/issues/comments/${own.id}`, body, signal)))
    return { kind: "edited", id: own.id };
  const request = { method: "POST", path: `${path}/issues/${place.pull}/comments`, body: { body } } as const;
  return { kind: "created", id: (await ask(request, commentSchema)).id };
}

/** False where somebody has deleted it meanwhile. */
async function edit(api: GiteaApi, path: string, body: string, signal: AbortSignal): Promise<boolean> {
  try {
    await askGiteaForText(api, { method: "PATCH", path, body: { body } }, signal);
    return true;
  } catch (error) {
    if (error instanceof GiteaRefusal && error.status === 404) return false;
    throw error;
  }
}

/** All comments. Gitea 1.27 gives all of them at once, whatever page is asked for: a page without news is the last one. */
async function listComments(api: GiteaApi, place: Place, signal: AbortSignal): Promise<readonly Comment[]> {
  const all = new Map<number, Comment>();
  const path = `${repositoryPath(place.repository)}/issues/${place.pull}/comments`;
  for (let page = 1; page <= maximumPages; page++) {
    const request = { method: "GET", path: `${path}?limit=${pageSize}&page=${page}` } as const;
    const comments = await askGitea(api, request, z.array(commentSchema).nullable(), signal);
    const before = all.size;
    for (const { id, body, user } of comments ?? []) all.set(id, { id, body, author: user?.id });
    if (all.size === before) return [...all.values()];
  }
  throw new Error(`pull request ${place.pull} has more than ${all.size} comments`);
}

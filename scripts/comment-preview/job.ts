import * as z from "zod";
import type { GiteaApi } from "../peers/gitea-api/client.ts";
import type { Place } from "./keep-comment.ts";

/** What a job knows: whom to ask, where to comment, and what it works on. */
export type Job = {
  readonly api: GiteaApi;
  readonly place: Place;
  readonly commit: string;
  readonly run: string;
};

const schema = z.object({
  GITHUB_API_URL: z.url().regex(/\/api\/v1\/?$/, "it does not end with /api/v1"),
  GITHUB_REPOSITORY: z.string().regex(/^[^/\s]+\/[^/\s]+$/, "it is no owner/name"),
  GITHUB_RUN_NUMBER: z.string().regex(/^\d+$/, "it is no number"),
  GITHUB_SHA: z.string().regex(/^[\da-f]{40,64}$/, "it is no commit"),
  GITHUB_TOKEN: z.string().min(1, "it is empty"),
  PULL_REQUEST: z.string().regex(/^[1-9]\d{0,9}$/, "it is no number"),
});

/** Reads the variables of a job. Throws with all that is wrong, by name; no value is told. */
export function readJob(environment: NodeJS.ProcessEnv): Job {
  const read = schema.safeParse(environment);
  if (!read.success) {
    const problems = read.error.issues.map(({ path, message }) => {
      const name = path.join(".");
      return environment[name] === undefined ? `${name}: it is not set` : `${name}: ${message}`;
    });
    throw new Error(problems.join("; "));
  }
  const { data } = read;
  const [owner = "", name = ""] = data.GITHUB_REPOSITORY.split("/");
  return {
    api: { url: data.GITHUB_API_URL.replace(/\/api\/v1\/?$/, ""), token: data.GITHUB_TOKEN },
    place: { repository: { owner, name }, pull: Number(data.PULL_REQUEST) },
    commit: data.GITHUB_SHA,
    run: data.GITHUB_RUN_NUMBER,
  };
}

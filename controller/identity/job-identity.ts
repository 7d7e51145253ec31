import { IdentityError } from "./errors.ts";
import { type TaskContext, type Trust, trustOf } from "./trust.ts";

export type { TaskContext, Trust };

export type JobIdentity = {
  readonly repository: string;
  readonly jobKey: string;
  readonly spiffeId: string;
  readonly trust: Trust;
};

/**
 * Who a job is, from Gitea's task context alone: `spiffe://<trust domain>/ci/<owner>/<repo>/<job key>`, or
 * `/ci-fork/…`. Of what a job's author writes only the job key takes part; it tells apart the jobs of one
 * repository, whose authors all may name a job as they like. Throws IdentityError naming the field.
 */
export function jobIdentity(trustDomain: string, context: TaskContext): JobIdentity {
  const repository = textIn(context, "repository");
  const jobKey = textIn(context, "job");
  const trust = trustOf(context);
  return { repository, jobKey, trust, spiffeId: jobSpiffeId(trustDomain, repository, jobKey, trust) };
}

/** The SPIFFE ID of a job; throws IdentityError for a repository or job key that cannot be part of one. */
export function jobSpiffeId(trustDomain: string, repository: string, jobKey: string, trust: Trust): string {
  const [owner, name, ...rest] = repository.split("/");
  // A lone surrogate has no UTF-8: all of them would read the same.
  if (!owner || !name || rest.length > 0 || !repository.isWellFormed())
    throw new IdentityError(`repository ${JSON.stringify(repository)} is not owner/name`);
  if (!isJobKey(jobKey))
    throw new IdentityError(`job key ${JSON.stringify(jobKey)} cannot be part of a SPIFFE ID`);
  const folder = trust === "fork" ? "ci-fork" : "ci";
  const id = `spiffe://${trustDomain}/${folder}/${sanitise(owner)}/${sanitise(name)}/${jobKey}`;
  if (id.length > 2048) throw new IdentityError(`the SPIFFE ID of ${jobKey} is longer than 2048 bytes`);
  return id;
}

/** Whether a text is a job key: what gitea-runner takes as one, of at most 255 characters. */
export function isJobKey(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_-]{0,254}$/.test(text);
}

/**
 * A path segment of a SPIFFE ID for any name, a different one for each: a byte outside `[A-Za-z0-9._-]` becomes
 * `..` and two hexadecimal digits, and so does a dot that would stand before another dot or be the whole
 * segment. So `..` always begins such a triple, and names as Gitea allows them stay as they are.
 */
export function sanitise(name: string): string {
  let segment = "";
  for (const byte of Buffer.from(name, "utf8").toReversed()) {
    const char = String.fromCharCode(byte);
    const plain = /[A-Za-z0-9._-]/.test(char) && !(char === "." && segment.startsWith("."));
    segment = (plain ? char : `..${byte.toString(16).padStart(2, "0")}`) + segment;
  }
  return segment === "." ? "..2e" : segment;
}

function textIn(context: TaskContext, key: string): string {
  const value = context[key];
  if (typeof value !== "string" || value === "") throw new IdentityError(`the task's context has no ${key}`);
  return value;
}

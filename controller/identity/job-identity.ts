import { IdentityError } from "./errors.ts";

/** `fork`: the code comes from a repository that is not the one whose workflow runs. */
export type Trust = "branch" | "fork";

export type JobIdentity = {
  readonly repository: string;
  readonly jobKey: string;
  readonly spiffeId: string;
  readonly trust: Trust;
};

/** The context of a Gitea task, as it came. */
export type TaskContext = { readonly [key: string]: unknown };

/**
 * Who a job is, from Gitea's task context alone: `spiffe://<trust domain>/ci/<owner>/<repo>/<job key>`, or
 * `/ci-fork/…`. Nothing that the job's author can write (workflow, environment, inputs) takes part.
 * Throws IdentityError naming the field.
 */
export function jobIdentity(trustDomain: string, context: TaskContext): JobIdentity {
  const repository = textIn(context, "repository");
  const jobKey = textIn(context, "job");
  const trust = trustOf(context, repository);
  return { repository, jobKey, trust, spiffeId: jobSpiffeId(trustDomain, repository, jobKey, trust) };
}

/** The SPIFFE ID of a job; throws IdentityError for a repository or job key that cannot be part of one. */
export function jobSpiffeId(trustDomain: string, repository: string, jobKey: string, trust: Trust): string {
  const [owner, name, ...rest] = repository.split("/");
  if (owner === undefined || owner === "" || name === undefined || name === "" || rest.length > 0)
    throw new IdentityError(`repository ${JSON.stringify(repository)} is not owner/name`);
  if (!/^[A-Za-z_][A-Za-z0-9_-]{0,254}$/.test(jobKey))
    throw new IdentityError(`job key ${JSON.stringify(jobKey)} cannot be part of a SPIFFE ID`);
  const folder = trust === "fork" ? "ci-fork" : "ci";
  const id = `spiffe://${trustDomain}/${folder}/${sanitise(owner)}/${sanitise(name)}/${jobKey}`;
  if (id.length > 2048) throw new IdentityError(`the SPIFFE ID of ${jobKey} is longer than 2048 bytes`);
  return id;
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

/**
 * A job on a pull request's ref is a fork's unless its head repository is the one that the job runs in,
 * whatever `event_name` says: a reusable workflow hides it, a review or comment event has another one.
 */
function trustOf(context: TaskContext, repository: string): Trust {
  const ref = context["ref"];
  if (typeof ref !== "string") throw new IdentityError("the task's context has no ref");
  if (!ref.startsWith("refs/pull/")) return "branch";
  const head = fieldIn(fieldIn(fieldIn(context["event"], "pull_request"), "head"), "repo");
  return fieldIn(head, "full_name") === repository ? "branch" : "fork";
}

function textIn(context: TaskContext, key: string): string {
  const value = context[key];
  if (typeof value !== "string" || value === "") throw new IdentityError(`the task's context has no ${key}`);
  return value;
}

function fieldIn(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

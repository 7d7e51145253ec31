import { IdentityError } from "./errors.ts";

/** `branch`: the code was put where it is by somebody who may write to the repository. `fork`: by anybody. */
export type Trust = "branch" | "fork";

/** The context of a Gitea task, as it came. */
export type TaskContext = { readonly [key: string]: unknown };

/**
 * Whose code a job runs. Without a pull request in its event a branch or a tag is the repository's own. With one
 * the code is a fork's unless event and commit together prove otherwise, for neither the event's name nor the ref
 * is to be believed: a reusable workflow hides the name, and the ref of a review event is whatever its author gave
 * as commit id: another pull request's ref, a bare commit, or a text like `refs/heads/main-g<commit>`, which git
 * reads as that commit. Whatever is unknown here is a fork's. Throws IdentityError for a context without event,
 * ref or commit.
 */
export function trustOf(context: TaskContext): Trust {
  const { event, ref, sha } = context;
  if (typeof event !== "object" || event === null) throw new IdentityError("the task's context has no event");
  if (typeof ref !== "string" || ref === "") throw new IdentityError("the task's context has no ref");
  if (typeof sha !== "string" || sha === "") throw new IdentityError("the task's context has no sha");
  if (!("pull_request" in event)) return /^refs\/(heads|tags)\/./.test(ref) ? "branch" : "fork";
  const pull = event.pull_request;
  return isBase(pull, ref, sha) || isMerge(pull, sha) || isOwnHead(pull, ref, sha) ? "branch" : "fork";
}

/** The tip of the branch that the pull request is for, as in `pull_request_target`: no code of the author's. */
function isBase(pull: unknown, ref: string, sha: string): boolean {
  const base = fieldIn(pull, "base");
  const branch = fieldIn(base, "ref");
  return typeof branch === "string" && ref === `refs/heads/${branch}` && sha === fieldIn(base, "sha");
}

/** The commit that the pull request was merged as: somebody who may write has taken it in. */
function isMerge(pull: unknown, sha: string): boolean {
  return fieldIn(pull, "merged") === true && sha === fieldIn(pull, "merge_commit_sha");
}

/**
 * The head of the pull request, if that is a branch of the same repository. Repositories are compared by id: a
 * name may have changed since the event. A pull request pushed to `refs/for/…` has the same repository as its
 * head, but no branch there, and needs no more than the right to read.
 */
function isOwnHead(pull: unknown, ref: string, sha: string): boolean {
  const head = fieldIn(pull, "head");
  const repository = fieldIn(fieldIn(head, "repo"), "id");
  const branch = fieldIn(head, "label");
  return (
    typeof repository === "number" &&
    repository === fieldIn(fieldIn(fieldIn(pull, "base"), "repo"), "id") &&
    typeof branch === "string" &&
    branch !== "" &&
    branch === fieldIn(head, "ref") &&
    (ref === `refs/pull/${String(fieldIn(pull, "number"))}/head` || sha === fieldIn(head, "sha"))
  );
}

function fieldIn(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

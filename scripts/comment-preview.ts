import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { describeError } from "../controller/platform/errors.ts";
import { bodyOf, markerOf } from "./comment-preview/body.ts";
import { readJob } from "./comment-preview/job.ts";
import { keepComment, type Kept } from "./comment-preview/keep-comment.ts";
import { GiteaRefusal } from "./peers/gitea-api/client.ts";

const help = `Usage: npm run comment-preview -- <stack> <file>

Makes the one comment of a pull request that tells the plan of a stack say what is in the file, as npm run preview has
written it; an empty file means that there is no plan. The comment is found again by a line that Gitea's pages do not
show, and only if the job itself is its author. A pull request that is closed gets no comment.

Environment, all of which a job of Gitea Actions has but the last two:
  GITHUB_API_URL, GITHUB_REPOSITORY   where
  GITHUB_SHA, GITHUB_RUN_NUMBER       of what
  GITHUB_TOKEN                        the job's own token, with pull-requests: write
  PULL_REQUEST                        its number
`;

const deadlineMs = 2 * 60_000;

process.exitCode = await main();

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.help === true) {
    process.stdout.write(help);
    return 0;
  }
  const [stack, file, ...rest] = positionals;
  if (stack === undefined || file === undefined || rest.length > 0) {
    process.stderr.write("comment-preview: name a stack and a file; --help tells more\n");
    return 2;
  }
  try {
    process.stdout.write(`${sentenceOf(await comment(stack, file))}\n`);
    return 0;
  } catch (error) {
    process.stderr.write(`comment-preview: ${explain(error)}\n`);
    return 1;
  }
}

function parse() {
  try {
    return parseArgs({ allowPositionals: true, options: { help: { type: "boolean", short: "h" } } });
  } catch {
    // An option that there is none: the same sentence as for too few words.
    return { values: {}, positionals: [] };
  }
}

async function comment(stack: string, file: string): Promise<Kept> {
  const { api, place, commit, run } = readJob(process.env);
  const body = bodyOf({ stack, commit, run }, await readFile(file, "utf8"));
  const signal = AbortSignal.timeout(deadlineMs);
  return await keepComment(api, place, { marker: markerOf(stack), body }, signal);
}

function sentenceOf(kept: Kept): string {
  switch (kept.kind) {
    case "closed":
      return "the pull request is closed: no comment";
    case "created":
      return `comment ${kept.id} is made`;
    case "edited":
      return `comment ${kept.id} is edited`;
    default:
      return kept satisfies never;
  }
}

/** Gitea's words are for whoever knows its API; whoever looks at a job wants to know what to change. */
function explain(error: unknown): string {
  const words = describeError(error);
  if (!(error instanceof GiteaRefusal)) return words;
  if (error.status === 401) return `Gitea does not take the job's token (${words})`;
  if (error.status === 403)
    return `the job's token may not do this: it takes permissions: pull-requests: write (${words})`;
  return words;
}

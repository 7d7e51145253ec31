import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "mocha";
import * as z from "zod";
import { markerOf, maximumBytes } from "../../scripts/comment-preview/body.ts";
import { askGitea, askGiteaForText, type GiteaApi } from "../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../scripts/peers/gitea-api/repository.ts";
import { runToEnd } from "../../scripts/peers/run-to-end.ts";
import { useGitea } from "../support/gitea.ts";
import { createContributor, openPullRequest } from "../support/pull-requests.ts";

const program = path.join(import.meta.dirname, "../../scripts/comment-preview.ts");
const { signal } = new AbortController();
const commit = "c".repeat(40);

describe("npm run comment-preview, on a pull request of the real Gitea", () => {
  const real = useGitea();
  let folder = "";
  let repository: Repository;
  let other: GiteaApi;
  let branches = 0;

  before("make a repository", async () => {
    folder = await mkdtemp(path.join(tmpdir(), "plans-"));
    repository = await createRepository(real.admin, { name: "plans" }, signal);
    other = await createContributor(real.gitea, "other", signal);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const openPull = async () => {
    const branch = `branch-${++branches}`;
    await pushFiles(real.admin, repository, { files: { [branch]: "x" }, newBranch: branch }, signal);
    return await openPullRequest(real.admin, repository, branch, signal);
  };
  const run = async (
    pull: number,
    plan: string,
    { token = real.admin.token, url = real.gitea.url, stack = "prod" } = {},
  ) => {
    const file = path.join(folder, "plan.md");
    await writeFile(file, plan);
    const environment = {
      PATH: process.env["PATH"],
      GITHUB_API_URL: `${url}/api/v1`,
      GITHUB_REPOSITORY: `${repository.owner}/${repository.name}`,
      GITHUB_RUN_NUMBER: "17",
      GITHUB_SHA: commit,
      GITHUB_TOKEN: token,
      PULL_REQUEST: String(pull),
    };
    const args = [program, stack, file];
    return await runToEnd({ program: process.execPath, args, environment, deadline: 100_000 }, signal);
  };
  const commented = async (...args: Parameters<typeof run>) => {
    const { exitCode, stdout, stderr } = await run(...args);
    assert.equal(exitCode, 0, stderr);
    return stdout.trim();
  };
  const issue = (pull: number) => `${repositoryPath(repository)}/issues/${pull}`;
  const comments = async (pull: number) =>
    await askGitea(
      real.admin,
      { method: "GET", path: `${issue(pull)}/comments` },
      z.array(z.object({ id: z.int(), body: z.string(), user: z.object({ login: z.string() }) })),
      signal,
    );
  const say = async (api: GiteaApi, pull: number, body: string) => {
    const request = { method: "POST", path: `${issue(pull)}/comments`, body: { body } } as const;
    return (await askGitea(api, request, z.object({ id: z.int() }), signal)).id;
  };

  it("B-95 makes one comment, and edits it from then on, whatever else is said", async () => {
    const pull = await openPull();
    const made = await commented(pull, "## Plan of stack prod\n\n1 to create.\n");
    for (let index = 0; index < 60; index++) await say(real.admin, pull, `Word ${index}.`);
    const edited = await commented(pull, "## Plan of stack prod\n\n8 unchanged.\n");
    const all = await comments(pull);
    assert.equal(all.length, 61);
    const [first] = all;
    assert.equal(made, `comment ${first?.id} is made`);
    assert.equal(edited, `comment ${first?.id} is edited`);
    assert.equal(
      first?.body,
      `${markerOf("prod")}\n## Plan of stack prod\n\n8 unchanged.\n\nOf commit ${commit}, by run 17.\n`,
    );
    // A second stack has its own.
    await commented(pull, "## Plan of stack dev\n", { stack: "dev" });
    assert.equal((await comments(pull)).length, 62);
  });

  it("B-95 leaves alone what somebody else has written, though it looks like ours and may be edited", async () => {
    const pull = await openPull();
    const forged = `${markerOf("prod")}\n## Plan of stack prod\n\nNothing would change.`;
    await say(other, pull, forged);
    await commented(pull, "true");
    const [theirs, ours, ...more] = await comments(pull);
    assert.deepEqual(more, []);
    assert.deepEqual([theirs?.user.login, theirs?.body], ["other", forged]);
    assert.match(ours?.body ?? "", /\ntrue\n/);
    // The same the other way round: who comes later does not take over ours.
    await say(other, pull, forged);
    assert.match(await commented(pull, "again"), new RegExp(`^comment ${ours?.id} is edited$`));
  });

  it("B-95 makes the comment anew if somebody has deleted it, also if just now", async () => {
    const pull = await openPull();
    await commented(pull, "first");
    const remove = async () => {
      const [{ id } = { id: 0 }] = await comments(pull);
      const request = {
        method: "DELETE",
        path: `${repositoryPath(repository)}/issues/comments/${id}`,
      } as const;
      await askGiteaForText(real.admin, request, signal);
    };
    await remove();
    assert.match(await commented(pull, "second"), /is made$/);
    await using between = await serveBefore(real.gitea.url, "PATCH", remove);
    assert.match(await commented(pull, "third", { url: between.url }), /is made$/);
    assert.deepEqual(
      (await comments(pull)).map(({ body }) => body.split("\n")[1]),
      ["third"],
    );
  });

  it("says that the token is wrong, without telling it, and that there is no such pull request", async () => {
    const pull = await openPull();
    const wrong = "0123456789".repeat(4);
    const refused = await run(pull, "plan", { token: wrong });
    assert.equal(refused.exitCode, 1);
    assert.match(refused.stderr, /^comment-preview: Gitea does not take the job's token \(/);
    assert.ok(!`${refused.stdout}${refused.stderr}`.includes(wrong));
    const none = await run(9_999, "plan");
    assert.equal(none.exitCode, 1);
    assert.match(none.stderr, /^comment-preview: GET .*\/pulls\/9999: 404/);
    assert.deepEqual(await comments(pull), []);
  });

  it("says that the rights are too few where the conversation is locked, and changes nothing", async () => {
    const pull = await openPull();
    await askGiteaForText(real.admin, { method: "PUT", path: `${issue(pull)}/lock`, body: {} }, signal);
    const { exitCode, stderr } = await run(pull, "plan", { token: other.token });
    assert.equal(exitCode, 1);
    assert.match(stderr, /it takes permissions: pull-requests: write \(POST .*: 403/);
    assert.deepEqual(await comments(pull), []);
  });

  it("B-95 says nothing on a pull request that is closed", async () => {
    const pull = await openPull();
    await askGiteaForText(
      real.admin,
      { method: "PATCH", path: issue(pull), body: { state: "closed" } },
      signal,
    );
    assert.equal(await commented(pull, "plan"), "the pull request is closed: no comment");
    assert.deepEqual(await comments(pull), []);
  });

  it("B-95 tells an endless plan as far as there is room, which Gitea keeps as it is", async () => {
    const pull = await openPull();
    await commented(
      pull,
      `## Plan of stack prod\n\n\`\`\`\n${"+ a line of the plan, 世界\n".repeat(100_000)}\`\`\`\n`,
    );
    const [only] = await comments(pull);
    assert.ok(Buffer.byteLength(only?.body ?? "") > maximumBytes - 2_048);
    assert.match(
      only?.body ?? "",
      /\n```\n\n\*\*This is not all of it:\*\* the last \d+ of 100004 lines.*\n\nOf commit c+, by run 17\.\n$/,
    );
  });
});

/** A server in front of another, which does something before it passes on a request of this method, once. */
async function serveBefore(url: string, method: string, act: () => Promise<void>) {
  let acted = false;
  const server = createServer((request, response) => {
    const pass = async () => {
      if (request.method === method && !acted) {
        acted = true;
        await act();
      }
      const body = await text(request);
      const answer = await fetch(`${url}${request.url}`, {
        method: request.method ?? "GET",
        headers: { authorization: request.headers.authorization ?? "", "content-type": "application/json" },
        body: body === "" ? null : body,
      });
      response.writeHead(answer.status).end(await answer.text());
    };
    pass().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

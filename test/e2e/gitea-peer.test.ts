import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import { awaitJobs, awaitRun } from "../../scripts/peers/gitea-api/await-run.ts";
import { registerRunner } from "../../scripts/peers/gitea-api/register-runner.ts";
import { createRepository, pushFiles } from "../../scripts/peers/gitea-api/repository.ts";
import { readJobLog } from "../../scripts/peers/gitea-api/runs.ts";
import { cancelRun, logIn } from "../../scripts/peers/gitea-api/web-session.ts";
import { preparePeer } from "../../scripts/peers/prepare-peer.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { startServer } from "../../scripts/peers/server-process.ts";
import { useGitea } from "../support/gitea.ts";

/** A workflow with one job that says a word. */
function workflow(label: string, word: string): string {
  const lines = [
    "on: push",
    "jobs:",
    "  say:",
    `    runs-on: ${label}`,
    "    steps:",
    `      - run: echo ${word}`,
  ];
  return `${lines.join("\n")}\n`;
}

describe("the real Gitea", () => {
  const real = useGitea({ service: { DISABLE_REGISTRATION: "false" } });
  const soon = () => AbortSignal.timeout(60_000);
  const completed = (one: { readonly status: string }) => one.status === "completed";

  it("is the version that it is said to be", async () => {
    assert.match(
      await real.gitea.command(["--version"], soon()),
      new RegExp(`version ${real.peer.version} `),
    );
  });

  it("answers, under settings that the caller may change", async () => {
    assert.equal((await fetch(`${real.gitea.url}/api/healthz`)).status, 200);
    assert.equal((await fetch(`${real.gitea.url}/user/sign_up`)).status, 200);
    assert.match(await (await fetch(`${real.gitea.url}/user/sign_up`)).text(), /id="password"/);
  });

  it("serves the script of its pages, or the reason is known", async function () {
    const { webPage } = real.peer;
    if (!webPage.built) {
      assert.notEqual(webPage.reason, "");
      return;
    }
    const page = await (await fetch(`${real.gitea.url}/user/login`)).text();
    const script = /src="([^"]*\/assets\/js\/index[^"]*)"/.exec(page)?.[1];
    assert.ok(script !== undefined, page.slice(0, 2_000));
    const answer = await fetch(new URL(script, real.gitea.url));
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get("content-type") ?? "", /javascript/);
    await answer.body?.cancel();
  });

  it("gives the job to the real gitea-runner and keeps its log", async () => {
    const { gitea, admin } = real;
    const runner = await registerRunner(gitea, { name: "official", labels: ["official"] }, soon());
    const repository = await createRepository(admin, { name: "spoken" }, soon());
    const files = { ".gitea/workflows/say.yml": workflow("official", "spoken-word") };
    const { sha } = await pushFiles(admin, repository, { files }, soon());

    const home = join(real.folder, "runner");
    await mkdir(home);
    const file = {
      ...runner,
      id: Number(runner.id),
      name: "official",
      address: gitea.url,
      labels: ["official:host"],
    };
    await writeFile(join(home, ".runner"), JSON.stringify(file));
    await writeFile(join(home, "config.yaml"), "cache:\n  enabled: false\n");
    const peer = await preparePeer("gitea-runner", { report: createReport() }, soon());
    const official = await startServer({
      name: "gitea-runner",
      program: peer.binary,
      args: ["daemon", "--once", "--config", join(home, "config.yaml")],
      folder: home,
      environment: { PATH: process.env["PATH"], HOME: home },
      logFile: join(home, "runner.log"),
    });
    try {
      const run = await awaitRun(admin, repository, { sha, fits: completed, deadlineMs: 60_000 }, soon());
      assert.equal(run.conclusion, "success");
      const wanted = { run: run.id, fits: () => true, deadlineMs: 60_000 };
      const [job] = await awaitJobs(admin, repository, wanted, soon());
      assert.ok(job !== undefined);
      assert.equal(job.runner_name, "official");
      assert.match(await readJobLog(admin, repository, job.id, soon()), /spoken-word/);
      assert.equal(await official.exited, "exit code 0");
    } finally {
      await official.stop();
    }
  });

  it("cancels a job that waits for a runner, through the login of its web page", async () => {
    const { admin } = real;
    const repository = await createRepository(admin, { name: "cancelled" }, soon());
    const files = {
      ".gitea/workflows/say.yml": workflow("nobody", "never"),
      "README.md": "Two files, one run\n",
    };
    const { sha } = await pushFiles(admin, repository, { files }, soon());
    const run = await awaitRun(admin, repository, { sha, deadlineMs: 60_000 }, soon());
    assert.equal(run.status, "queued");
    await cancelRun(await logIn(admin, soon()), repository, run.id, soon());
    const ended = await awaitRun(admin, repository, { sha, fits: completed, deadlineMs: 60_000 }, soon());
    assert.equal(ended.conclusion, "cancelled");
  });

  it("refuses a login with the wrong password", async () => {
    await assert.rejects(logIn({ ...real.admin, password: "wrong" }, soon()), /logging in as admin1: 200/);
  });

  it("has the same data at the same address after a restart", async () => {
    const { url } = real.gitea;
    await real.restart();
    assert.equal(real.gitea.url, url);
    await assert.rejects(createRepository(real.admin, { name: "cancelled" }, soon()), /409/);
  });
});

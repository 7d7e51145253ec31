import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it } from "mocha";
import * as z from "zod";
import { markerOf } from "../../scripts/comment-preview/body.ts";
import { awaitJobs } from "../../scripts/peers/gitea-api/await-run.ts";
import { askGitea, askGiteaForText } from "../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../scripts/peers/gitea-api/repository.ts";
import {
  dispatchWorkflow,
  listRuns,
  readJobLog,
  type WorkflowJob,
} from "../../scripts/peers/gitea-api/runs.ts";
import { findPeer } from "../../scripts/peers/prepare-peer.ts";
import { stageBinary } from "../../scripts/peers/stage.ts";
import { trustDomain } from "../../scripts/quick-start/identities.ts";
import { canGiveUids } from "../controller/backends/local/if-root.ts";
import { eventually } from "../support/eventually.ts";
import { pushThisRepository } from "../support/own-repository.ts";
import { usePlatform } from "../support/platform.ts";
import { approveRun, createContributor, fork, openPullRequest } from "../support/pull-requests.ts";

const { signal } = new AbortController();
/** A job installs all packages. */
const jobMs = 10 * 60_000;

type Ran = { readonly job: WorkflowJob; readonly log: string };

describe("the project's own workflows run through the project", () => {
  if (!canGiveUids("the project's own workflows, with identities of real SPIRE")) return;
  const real = usePlatform({ spire: {} });
  let repository: Repository;
  const seen = new Set<number>();
  let testing = 0;
  let pull = 0;

  before("push this repository", async function () {
    this.timeout(120_000);
    repository = await createRepository(real.platform.admin, { name: "own" }, signal);
    await pushThisRepository(real.platform.admin, repository, {}, signal);
    // It takes long, and goes on beside the others.
    const inputs = { tests: "test/controller/identity" };
    await dispatchWorkflow(real.platform.admin, repository, { workflow: "test.yml", inputs }, signal);
    testing = await nextRun("test.yml");
    const at = `${repositoryPath(repository)}/actions/workflows/test.yml/disable`;
    await askGiteaForText(real.platform.admin, { method: "PUT", path: at }, signal);
  });

  /** The next run of a workflow that no test has seen yet. */
  const nextRun = async (workflow: string): Promise<number> => {
    let found: number | undefined;
    await eventually(`a run of ${workflow}`, async () => {
      const runs = await listRuns(real.platform.admin, repository, signal);
      found = runs.find((run) => run.path.startsWith(`${workflow}@`) && !seen.has(run.id))?.id;
      return found !== undefined;
    });
    assert.ok(found !== undefined);
    seen.add(found);
    return found;
  };
  const finished = async (run: number): Promise<readonly Ran[]> => {
    const { admin } = real.platform;
    const fits = (jobs: readonly WorkflowJob[]) =>
      jobs.length > 0 && jobs.every(({ status }) => status === "completed");
    const jobs = await awaitJobs(admin, repository, { run, fits, deadlineMs: jobMs }, signal);
    return await Promise.all(
      jobs.map(async (job) => {
        const log = job.conclusion === "skipped" ? "" : await readJobLog(admin, repository, job.id, signal);
        return { job, log };
      }),
    );
  };
  const byHand = async (workflow: string) => {
    await dispatchWorkflow(real.platform.admin, repository, { workflow }, signal);
    return await finished(await nextRun(workflow));
  };
  /** How each step ended that the workflow names. */
  const steps = ({ job }: Ran) =>
    Object.fromEntries((job.steps ?? []).map(({ name, conclusion }) => [name, conclusion]));
  const only = (ran: readonly Ran[]): Ran => {
    const [first, ...more] = ran;
    assert.ok(first !== undefined && more.length === 0, `${ran.length} jobs`);
    return first;
  };
  const setSecret = async (name: string, data: string) => {
    const at = `${repositoryPath(repository)}/actions/secrets/${name}`;
    await askGiteaForText(real.platform.admin, { method: "PUT", path: at, body: { data } }, signal);
  };
  const comments = async (of: number) =>
    await askGitea(
      real.platform.admin,
      { method: "GET", path: `${repositoryPath(repository)}/issues/${of}/comments` },
      z.array(z.object({ id: z.int(), body: z.string(), user: z.object({ login: z.string() }) })),
      signal,
    );

  it("B-97 spire-identity-smoke.yml gets the job's own JWT-SVID, and does not show it", async function () {
    this.timeout(jobMs);
    const { job, log } = only(await byHand("spire-identity-smoke.yml"));
    assert.equal(job.conclusion, "success", log);
    const { owner, name } = repository;
    assert.ok(log.includes(`JWT-SVID of spiffe://${trustDomain}/ci/${owner}/${name}/identity`), log);
    assert.doesNotMatch(log, /eyJ/);
  });

  it("B-97 pod-smoke.yml sees that a process of this machine is no Pod", async function () {
    this.timeout(jobMs);
    const ran = only(await byHand("pod-smoke.yml"));
    assert.equal(ran.job.conclusion, "failure");
    const { "JWT-SVID for zot": identity, User: user } = steps(ran);
    assert.deepEqual([identity, user], ["success", "failure"], JSON.stringify(ran.job.steps));
    assert.match(ran.log, /the job runs as uid 60\d{3}, not as 2000/);
    assert.ok(!ran.log.includes("pod-docker-ok\n"));
  });

  it("B-98 vm-runtime-smoke.yml finds the agent's socket, and no Docker", async function () {
    this.timeout(jobMs);
    const ran = only(await byHand("vm-runtime-smoke.yml"));
    assert.equal(ran.job.conclusion, "failure");
    const { "Agent's socket": socket, Docker: docker } = steps(ran);
    assert.deepEqual([socket, docker], ["success", "failure"], JSON.stringify(ran.job.steps));
    assert.match(ran.log, /the socket is \/\S+/);
    assert.ok(!ran.log.includes("vm-runtime-ok\n"));
  });

  it("B-99 vm-kind-smoke.yml shows the control groups, and finds no Docker to run a Kubernetes in", async function () {
    this.timeout(jobMs);
    const ran = only(await byHand("vm-kind-smoke.yml"));
    assert.equal(ran.job.conclusion, "failure");
    const { "Kernel log": log, "Control groups": groups, kind } = steps(ran);
    // A process of this machine may make no device.
    const wanted = existsSync("/dev/kmsg")
      ? ["success", "failure", "skipped"]
      : ["failure", "skipped", "skipped"];
    assert.deepEqual([log, groups, kind], wanted, JSON.stringify(ran.job.steps));
    if (groups === "failure") assert.match(ran.log, /in a container with a private cgroup namespace:/);
    assert.ok(!ran.log.includes("in a container with a host cgroup namespace:"));
  });

  it("B-95 B-107 pulumi-preview.yml says in one comment why there is no plan", async function () {
    this.timeout(jobMs);
    const { admin } = real.platform;
    const push = { files: { change: "1" }, newBranch: "topic" };
    const { sha } = await pushFiles(admin, repository, push, signal);
    pull = await openPullRequest(admin, repository, "topic", signal);
    const ran = only(await finished(await nextRun("pulumi-preview.yml")));
    assert.equal(ran.job.conclusion, "failure");
    const { Plan: plan, Comment: comment } = steps(ran);
    assert.deepEqual([plan, comment], ["failure", "success"], ran.log.slice(-4_000));
    const [first, ...more] = await comments(pull);
    assert.deepEqual(more, []);
    assert.equal(first?.user.login, "gitea-actions");
    assert.ok(
      first.body.startsWith(
        `${markerOf("prod")}\n## Plan of stack prod\n\n**No plan:** pulumi is not on PATH`,
      ),
    );
    assert.ok(first.body.includes(`Of commit ${sha}, by run `), first.body);
    assert.match(ran.log, /PULUMI_SHA256, the checksum of https:\S+, is not set/);
  });

  it("B-95 B-107 the next commit edits that comment, and says what Pulumi says with the repository's secrets", async function () {
    this.timeout(jobMs);
    const { admin, folder } = real.platform;
    const [old] = await comments(pull);
    const pulumi = await findPeer("pulumi", {}, signal);
    const said =
      pulumi === undefined
        ? "pulumi is not on PATH"
        : "there is no stack prod: pulumi stack init prod makes it.";
    let files: Readonly<Record<string, string>> = { change: "2" };
    if (pulumi === undefined) {
      console.log("      without Pulumi (npm run peers -- pulumi makes it): only that it is missing");
    } else {
      const program = await stageBinary(pulumi.binary, path.join(folder, "pulumi"));
      const backend = await mkdtemp(path.join(folder, "pulumi/backend-"));
      await chmod(backend, 0o777);
      await setSecret("PULUMI_BACKEND_URL", `file://${backend}`);
      await setSecret("PULUMI_CONFIG_PASSPHRASE", "open sesame");
      // Where a release of it would be unpacked nothing can be: no network leads there.
      files = { "package.json": await withPostinstall(`ln -s ${program} node_modules/.bin/pulumi`) };
    }
    const { sha } = await pushFiles(admin, repository, { files, branch: "topic" }, signal);
    const ran = only(await finished(await nextRun("pulumi-preview.yml")));
    assert.equal(steps(ran)["Comment"], "success", ran.log.slice(-4_000));
    const [edited, ...more] = await comments(pull);
    assert.deepEqual([more, edited?.id], [[], old?.id]);
    const body = edited?.body ?? "";
    assert.ok(body.includes(`**No plan:** ${said}`), body);
    assert.ok(body.includes(`Of commit ${sha}, by run `), body);
    assert.ok(!ran.log.includes("open sesame"));
  });

  it("B-95 of a fork there is no plan and no comment: its job is skipped, by an executor that is no Pod", async function () {
    this.timeout(jobMs);
    const { admin, gitea } = real.platform;
    const mallory = await createContributor(gitea, "mallory", signal);
    const theirs = await fork(mallory, repository, "copy", signal);
    await pushFiles(mallory, theirs, { files: { change: "3" }, newBranch: "theirs" }, signal);
    const forked = await openPullRequest(mallory, repository, "mallory:theirs", signal);
    const run = await nextRun("pulumi-preview.yml");
    await approveRun(admin, repository, run, signal);
    const { job } = only(await finished(run));
    assert.equal(job.conclusion, "skipped");
    assert.deepEqual(job.labels, ["self-hosted", "vm"]);
    assert.deepEqual(await comments(forked), []);
  });
  it("B-95 test.yml checks out, installs, checks the types and runs the tests of one folder", async function () {
    this.timeout(jobMs);
    const ran = await finished(testing);
    const test = ran.find(({ job }) => job.name === "test");
    assert.ok(test !== undefined);
    assert.equal(test.job.conclusion, "success", test.log.slice(-4_000));
    assert.match(test.log, /\d+ passing/);
    assert.ok(!test.log.includes("FAILED"));
    const endToEnd = ran.find(({ job }) => job.name === "end-to-end");
    assert.equal(endToEnd?.job.conclusion, "skipped");
  });
});

/** Our package.json, which does this too once all packages are there. */
async function withPostinstall(command: string): Promise<string> {
  const text = await readFile(path.join(import.meta.dirname, "../../package.json"), "utf8");
  const manifest = JSON.parse(text) as { readonly scripts: Readonly<Record<string, string>> };
  return JSON.stringify({ ...manifest, scripts: { ...manifest.scripts, postinstall: command } });
}

import assert from "node:assert/strict";
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { createRepository, pushFiles, type Repository } from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs, listRuns, readJobLog, type WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import { eventually } from "../support/eventually.ts";
import { usePlatform } from "../support/platform.ts";
import {
  approveRun,
  createContributor,
  deleteRepository,
  fork,
  label,
  openPullRequest,
  pushForReview,
  review,
} from "../support/pull-requests.ts";

/** What came with which way of getting code into a run. */
type Way = { readonly key: string; readonly trust: "branch" | "fork"; readonly jobs: number };

const ways: readonly (Way & { readonly what: string })[] = [
  { key: "push", trust: "branch", jobs: 1, what: "a push" },
  { key: "own", trust: "branch", jobs: 1, what: "a pull request from a branch of the same repository" },
  { key: "direct", trust: "fork", jobs: 1, what: "a fork's pull request" },
  { key: "called", trust: "fork", jobs: 1, what: "a fork's pull request, through a reusable workflow" },
  {
    key: "review",
    trust: "fork",
    jobs: 2,
    what: "a review of a fork's pull request, and one of a branch's about a fork's commit",
  },
  { key: "agit", trust: "fork", jobs: 1, what: "a pull request that was pushed to refs/for" },
  { key: "labelled", trust: "fork", jobs: 1, what: "a pull request whose fork was deleted" },
];
/** Until eight executors have started beside each other. */
const allMs = 240_000;
const vmJobs = ways.reduce((sum, { jobs }) => sum + jobs, 0);

type Executor = { readonly jobKey: string; readonly spiffeId: string; readonly log: string };

describe("whose code a job runs", function () {
  this.timeout(allMs);
  const real = usePlatform({ controller: { VM_CAPACITY: String(vmJobs), POD_CAPACITY: "2" } });
  let gates = "";
  let gate = "";
  let repository: Repository;
  /** A stranger's review of a branch's pull request, about his fork's commit. */
  let reviewOnceMore: () => Promise<void>;
  const signal = AbortSignal.timeout(30 * 60_000);

  const workflow = (on: string, key: string) => `
on: ${on}
jobs:
  ${key}-pod:
    runs-on: [self-hosted, pod]
    steps:
      - run: echo "it runs in a pod"
  ${key}-vm:
    runs-on: [self-hosted, vm]
    steps:
      - run: while [ ! -e ${gate} ]; do sleep 0.2; done
`;
  const file = (name: string) => `.gitea/workflows/${name}.yml`;

  before("make the runs", async () => {
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
    gate = path.join(gates, "open");
    const { admin, gitea } = real.platform;
    const mallory = await createContributor(gitea, "mallory", signal);
    repository = await createRepository(admin, { name: "trust" }, signal);
    await pushFiles(
      admin,
      repository,
      { files: { [file("push")]: workflow("{ push: { branches: [main] } }", "push") } },
      signal,
    );

    const opened = "{ pull_request: { types: [opened] } }";
    const files = { [file("own")]: workflow(opened, "own") };
    await pushFiles(admin, repository, { files, newBranch: "own" }, signal);
    const own = await openPullRequest(admin, repository, "own", signal);

    const theirs = await fork(mallory, repository, "trap", signal);
    const trap = {
      [file("direct")]: workflow(opened, "direct"),
      [file("caller")]: `on: ${opened}\njobs:\n  call:\n    uses: ./${file("called")}\n`,
      [file("called")]: workflow("workflow_call", "called"),
      [file("review")]: workflow("pull_request_review", "review"),
      [file("labelled")]: workflow("{ pull_request: { types: [labeled] } }", "labelled"),
    };
    const { sha } = await pushFiles(mallory, theirs, { files: trap, newBranch: "topic" }, signal);
    const pull = await openPullRequest(mallory, repository, "mallory:topic", signal);
    await review(admin, repository, { pull, commit: sha }, signal);
    reviewOnceMore = () => review(mallory, repository, { pull: own, commit: sha }, signal);
    await reviewOnceMore();
    const agit = { path: file("agit"), text: workflow(opened, "agit") };
    await pushForReview(mallory, repository, agit, signal);
    await deleteRepository(mallory, theirs, signal);
    await label(admin, repository, pull, signal);
    await approveUntil("all jobs for a VM run", () => real.lines.filter(isClaimed).length === vmJobs);
    await eventually(
      "all jobs for a pod are over",
      async () =>
        (await jobs()).every(({ name, status }) => !name.endsWith("-pod") || status === "completed"),
      allMs,
    );
  });
  after(() => rm(gates, { recursive: true, force: true }));

  /** What a stranger's event has started waits for somebody of the repository. */
  const approveUntil = (what: string, done: () => boolean) =>
    eventually(
      what,
      async () => {
        const { admin } = real.platform;
        for (const { id, status } of await listRuns(admin, repository, signal))
          if (status !== "completed") await approveRun(admin, repository, id, signal);
        return done();
      },
      allMs,
    );
  const isClaimed = (line: (typeof real.lines)[number]) =>
    line["event"] === "runner_claimed" && line["backend"] === "vm";

  const folder = () => path.join(real.platform.folder, "state/executors");
  /** Those in VMs: they stay until the gate is open, where one in a pod may go while we look. */
  const executors = async (): Promise<readonly Executor[]> => {
    const all: Executor[] = [];
    for (const name of await readdir(folder())) {
      const text = await readFile(path.join(folder(), name, "executor.json"), "utf8").catch(() => "");
      if (text === "") continue;
      const { annotations } = JSON.parse(text) as { annotations: Record<string, string> };
      const of = (key: string) => annotations[`ci.ddupan.top/${key}`] ?? "";
      if (!of("job-key").endsWith("-vm")) continue;
      const log = await readFile(path.join(folder(), name, "log"), "utf8");
      all.push({ jobKey: of("job-key"), spiffeId: of("spiffe-id"), log });
    }
    return all.toSorted((a, b) => a.jobKey.localeCompare(b.jobKey));
  };
  const jobs = async (): Promise<readonly WorkflowJob[]> => {
    const { admin } = real.platform;
    const runs = await listRuns(admin, repository, signal);
    return (await Promise.all(runs.map(({ id }) => listJobs(admin, repository, id, signal)))).flat();
  };

  for (const { key, trust, jobs: count, what } of ways) {
    const is = trust === "fork" ? "a fork's" : "the repository's own";
    it(`B-10 of ${what} is ${is}: its ID in a VM begins with ${trust === "fork" ? "/ci-fork/" : "/ci/"}`, async () => {
      const mine = (await executors()).filter(({ jobKey }) => jobKey === `${key}-vm`);
      assert.equal(mine.length, count);
      const { owner, name } = repository;
      const expected = `spiffe://quick-start.example/${trust === "fork" ? "ci-fork" : "ci"}/${owner}/${name}/${key}-vm`;
      for (const { spiffeId, log } of mine) {
        assert.equal(spiffeId, expected);
        // The certificate itself says so, not only our own note.
        const received = log.split("\n").filter((line) => line.includes('"x509-svid received"'));
        assert.ok(received.length > 0 && received.every((line) => line.includes(`"${expected}"`)), log);
      }
    });

    it(`B-10 of ${what} ${trust === "fork" ? "does not run in a pod, and the log names vm" : "runs in a pod"}`, async () => {
      const mine = (await jobs()).filter(({ name }) => name.endsWith(`${key}-pod`));
      assert.equal(mine.length, count);
      for (const job of mine) {
        const log = await readJobLog(real.platform.admin, repository, job.id, signal);
        assert.equal(job.conclusion, trust === "fork" ? "failure" : "success", log);
        if (trust === "fork")
          assert.match(log, /code from a fork does not run in a Pod[^]*use runs-on: \[self-hosted, vm\]/);
        assert.equal(log.includes("it runs in a pod"), trust === "branch");
      }
    });
  }

  it("B-10 is known again after a restart, of a job that has waited for its place too, and all jobs go on", async () => {
    const known = (await executors()).map(({ spiffeId }) => spiffeId);
    await reviewOnceMore();
    const stored = () => real.lines.filter(({ msg, job }) => msg === "task stored" && job === "review-vm");
    await approveUntil("a fork's job waits for a place", () => stored().length === 3);
    assert.deepEqual(
      (await executors()).map(({ spiffeId }) => spiffeId),
      known,
    );
    const seen = real.lines.length;
    real.platform.controller().signal("SIGKILL");
    await real.platform.controller().exited;
    await real.platform.restartController(signal, { VM_CAPACITY: String(vmJobs + 1) });
    const found = await real.line(
      (line) =>
        real.lines.indexOf(line) >= seen && line.msg === "executors found" && line["backend"] === "vm",
    );
    assert.equal(found["alive"], vmJobs);

    await eventually("the job that waited runs", () => real.lines.slice(seen).some(isClaimed), allMs);
    const { owner, name } = repository;
    const forks = `spiffe://quick-start.example/ci-fork/${owner}/${name}/review-vm`;
    const now = await executors();
    assert.deepEqual(now.map(({ spiffeId }) => spiffeId).toSorted(), [...known, forks].toSorted());
    for (const { log } of now.filter(({ jobKey }) => jobKey === "review-vm"))
      assert.match(log, new RegExp(`"spiffeId":"${forks}".*"x509-svid received"`));

    await writeFile(gate, "");
    await eventually(
      "all jobs in VMs succeed",
      async () => {
        const mine = (await jobs()).filter(({ name: job }) => job.endsWith("-vm"));
        return mine.length === vmJobs + 1 && mine.every(({ conclusion }) => conclusion === "success");
      },
      allMs,
    );
  });
});

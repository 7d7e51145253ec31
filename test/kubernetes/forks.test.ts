import assert from "node:assert/strict";
import { before, describe, it } from "mocha";
import { pushFiles, type Repository } from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs, listRuns, readJobLog, type WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import { eventually } from "../support/eventually.ts";
import { watchMade } from "../support/kubernetes/made-since.ts";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import type { Tenant } from "../support/kubernetes/tenant.ts";
import { type ClusterController, useCluster } from "../support/kubernetes/use-cluster.ts";
import { approveRun, createContributor, fork, openPullRequest } from "../support/pull-requests.ts";

const jobMs = 180_000;
const workflow = `on: pull_request
jobs:
  test:
    runs-on: [self-hosted, pod]
    steps:
      - run: echo "it runs in a pod"
`;
const file = ".gitea/workflows/test.yml";

const { signal } = new AbortController();

describe("a pull request, on a real cluster,", function () {
  this.timeout(400_000);
  const cluster = useCluster();
  let tenant: Tenant;
  let controller: ClusterController;
  let repository: Repository;
  let pods: () => Promise<readonly string[]>;
  let entries: () => Promise<readonly string[]>;

  before("start the controller", async () => {
    const { kubernetes } = cluster.platform;
    tenant = await cluster.tenant({ name: "forks" });
    controller = await cluster.start({ tenant });
    repository = await cluster.repository("forks");
    pods = await watchMade(kubernetes, `/api/v1/namespaces/${tenant.namespace}/pods`);
    entries = await watchMade(kubernetes, "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries");
  });

  /** The only job of a commit's run, when it is over, and its log without times. What a stranger starts is approved. */
  const jobOf = async (
    sha: string,
  ): Promise<{ readonly job: WorkflowJob; readonly log: readonly string[] }> => {
    const { admin } = cluster.platform;
    let jobs: readonly WorkflowJob[] = [];
    const isOver = async () => {
      const run = (await listRuns(admin, repository, signal)).find(({ head_sha }) => head_sha === sha);
      if (run === undefined) return false;
      if (run.status !== "completed") await approveRun(admin, repository, run.id, signal);
      jobs = await listJobs(admin, repository, run.id, signal);
      return jobs.length > 0 && jobs.every(({ status }) => status === "completed");
    };
    await eventually("its job is over", isOver, jobMs, 500);
    const [job] = jobs;
    assert.ok(job !== undefined && jobs.length === 1);
    const text = await readJobLog(admin, repository, job.id, signal);
    const log = text.trimEnd().split("\n");
    return { job, log: log.map((line) => line.replace(/^\S+Z /, "")) };
  };

  it("B-10 of a fork fails with the line that names vm, and neither a Pod nor a registration entry is ever made", async () => {
    const { admin, gitea } = cluster.platform;
    await pushFiles(admin, repository, { files: { "README.md": "To be forked.\n" } }, signal);
    const mallory = await createContributor(gitea, "mallory", signal);
    const theirs = await fork(mallory, repository, "trap", signal);
    const files = { [file]: workflow };
    const { sha } = await pushFiles(mallory, theirs, { files, newBranch: "topic" }, signal);
    await openPullRequest(mallory, repository, "mallory:topic", signal);

    const { job, log } = await jobOf(sha);
    assert.equal(job.conclusion, "failure");
    assert.deepEqual(log, [
      "This job cannot be run here: code from a fork does not run in a Pod, where it would be root on the node.",
      "Who can fix it: the author of the workflow. Reason: fork_on_pod.",
      "What to do: use runs-on: [self-hosted, vm].",
    ]);
    await controller.line(({ msg }) => msg === "task refused");
    const refused = controller.lines.filter(({ msg }) => msg === "task refused");
    assert.deepEqual(
      refused.map(({ reason }) => reason),
      ["fork_on_pod"],
    );
    assert.deepEqual(await pods(), []);
    assert.deepEqual(await entries(), []);
  });

  it("B-10 of a branch of the repository runs in a Pod with an entry", async () => {
    const { admin, kubernetes } = cluster.platform;
    const { sha } = await pushFiles(
      admin,
      repository,
      { files: { [file]: workflow }, newBranch: "own" },
      signal,
    );
    await openPullRequest(admin, repository, "own", signal);
    const { job, log } = await jobOf(sha);
    assert.equal(job.conclusion, "success", log.join("\n"));
    assert.ok(log.includes("it runs in a pod"), log.join("\n"));
    await untilNothingLeft(kubernetes, tenant.namespace);
    let made: readonly string[] = [];
    await eventually("its pod was seen", async () => (made = await pods()).length > 0);
    assert.equal(made.length, 1);
    assert.deepEqual(await entries(), made);
  });
});

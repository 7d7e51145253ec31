import assert from "node:assert/strict";
import { before, describe, it } from "mocha";
import { untilNothingLeft } from "../support/kubernetes/pod-history.ts";
import { type ClusterController, useCluster } from "../support/kubernetes/use-cluster.ts";
import type { Tenant } from "../support/kubernetes/tenant.ts";

const jobsMs = 240_000;

/** Says who it is, and fetches the job's own SVID, as a step of a workflow would. */
const workflow = `
on: push
jobs:
  first:
    runs-on: [self-hosted, pod]
    outputs:
      word: \${{ steps.say.outputs.word }}
    steps:
      - id: say
        run: |
          echo "uid $(id -u)"
          spire-agent api fetch x509 -socketPath "\${SPIFFE_ENDPOINT_SOCKET#unix://}" | grep -F 'SPIFFE ID'
          echo "word=\${{ github.job }}" >> "$GITHUB_OUTPUT"
  second:
    needs: first
    runs-on: [self-hosted, pod]
    steps:
      - run: echo "heard \${{ needs.first.outputs.word }}"
`;

describe("a push to a real Gitea, on a real cluster", function () {
  this.timeout(500_000);
  const cluster = useCluster();
  let tenant: Tenant;
  let controller: ClusterController;

  before("start the controller", async () => {
    tenant = await cluster.tenant({ name: "chain" });
    controller = await cluster.start({ tenant });
  });

  it("B-50 runs each job in a Pod of its own, with its own SVID for uid 2000, and leaves nothing", async () => {
    const run = await cluster.push("chain", workflow);
    const jobs = await run.jobs(undefined, jobsMs);
    assert.deepEqual(
      jobs.map(({ name, conclusion }) => [name, conclusion]),
      [
        ["first", "success"],
        ["second", "success"],
      ],
    );
    const [first, second] = await Promise.all(jobs.map((job) => run.log(job)));
    assert.ok(first?.includes("uid 2000"), first?.join("\n"));
    assert.match(first?.join("\n") ?? "", /SPIFFE ID:\s+spiffe:\/\/cluster\.example\/ci\/demo\/chain\/first/);
    assert.ok(second?.includes("heard first"), second?.join("\n"));
    const created = controller.lines.filter(({ event }) => event === "executor_created");
    assert.equal(created.length, 2);
    await untilNothingLeft(cluster.platform.kubernetes, tenant.namespace);
  });
});

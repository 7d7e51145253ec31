import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { startTroubledRegistry, type TroubledRegistry } from "../support/kubernetes/troubled-registry.ts";
import { killPod } from "../support/kubernetes/pod-processes.ts";
import {
  forCluster,
  meet,
  onlyPod,
  told,
  type Trouble,
  type TroubledJob,
  untilRow,
} from "../support/kubernetes/troubles.ts";
import { useCluster } from "../support/kubernetes/use-cluster.ts";
import { runTroubles } from "./run-troubles.ts";
import { startTroubles } from "./start-troubles.ts";

const troubles = [...runTroubles, ...startTroubles];
/** So many meet their trouble at once. */
const lanes = 8;

describe("the log in Gitea of a job that meets, on a real cluster,", function () {
  this.timeout(600_000);
  const cluster = useCluster();
  const met = new Map<Trouble, Promise<TroubledJob>>();
  let registry: TroubledRegistry | undefined;

  before("let all of them begin, some at once", async () => {
    const { kubernetes, folder } = cluster.platform;
    registry = await startTroubledRegistry(kubernetes, path.join(folder, "k8s/registries"));
    const there = registry;
    const turns = Array.from({ length: lanes }, () => Promise.resolve());
    for (const [index, trouble] of troubles.entries()) {
      const lane = index % lanes;
      const job = (turns[lane] ?? Promise.resolve()).then(() => meet(cluster, there, trouble));
      met.set(trouble, job);
      turns[lane] = job.then(
        () => undefined,
        // Its own test tells.
        () => undefined,
      );
    }
  });
  after(() => registry?.[Symbol.asyncDispose]());

  for (const trouble of troubles)
    it(`says so: ${trouble.title}`, async () => {
      assertTold(trouble, (await met.get(trouble)) as TroubledJob);
    });

  // The last one: there is no node after it.
  it("says so: the loss of its node", async () => {
    const trouble: Trouble = {
      name: "node-gone",
      title: "the loss of its node",
      step: "echo it runs; sleep 300",
      meanwhile: async ({ run, tenant }) => {
        await untilRow(run, /^it runs$/);
        const { uid } = (await onlyPod(cluster, tenant)).metadata;
        const { api, components, nodeName } = cluster.platform.kubernetes;
        await components.kubelet.pause();
        await killPod(uid);
        await api.remove(`/api/v1/nodes/${nodeName}`, AbortSignal.timeout(30_000));
      },
      conclusion: "failure",
      rows: [
        "it runs",
        /^This job was cut short: the node of its executor was lost\. Seen: .*PodGC: node no longer exists/,
        told(forCluster, "node_lost"),
      ],
    };
    assert.ok(registry !== undefined);
    assertTold(trouble, await meet(cluster, registry, trouble));
  });
});

function assertTold({ conclusion, rows }: Trouble, { job, log }: TroubledJob): void {
  const text = log.join("\n");
  assert.equal(job.conclusion, conclusion, text);
  let from = 0;
  for (const row of rows) {
    const fits = (line: string) => (typeof row === "string" ? line === row : row.test(line));
    const at = log.findIndex((line, index) => index >= from && fits(line));
    assert.ok(at >= 0, `${String(row)} is not in, or not in its place:\n${text}`);
    from = at + 1;
  }
}

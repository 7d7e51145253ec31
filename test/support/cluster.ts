import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before } from "mocha";
import type { Kubernetes, KubernetesOptions } from "../../scripts/peers/cluster/kubernetes.ts";
import { clusterObstacle } from "../../scripts/peers/cluster/obstacle.ts";
import { type ClusterParts, prepareCluster } from "../../scripts/peers/cluster/prepare-cluster.ts";
import { startKubernetes } from "../../scripts/peers/cluster/start-kubernetes.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { skipFor } from "./needs-tools.ts";

/** A cluster for all tests of a `describe`; there from its first test on. */
export type ClusterUnderTest = {
  readonly cluster: Kubernetes;
  /** Its run folder, with a log of each program in `logs`. */
  readonly folder: string;
  readonly parts: ClusterParts;
  /** Of the start, without the preparation of its parts. */
  readonly startSeconds: number;
};

/** Kubernetes is compiled the first time. */
const buildMs = 90 * 60_000;
const { signal } = new AbortController();

/** Registers hooks that start a cluster, and stop it. Skips the tests where none can run. */
export function useCluster(options: Omit<KubernetesOptions, "folder" | "parts">): ClusterUnderTest {
  let state: ClusterUnderTest | undefined;
  let folder: string | undefined;
  const started = () => {
    if (state === undefined) throw new Error("the cluster is there from the first test on");
    return state;
  };
  before("start a cluster", async function () {
    this.timeout(buildMs);
    await needCluster(this);
    const parts = await prepareCluster({ report: createReport() }, signal);
    folder = await clusterFolder();
    const begun = performance.now();
    const cluster = await startKubernetes({ ...options, folder, parts }, signal);
    state = { cluster, folder, parts, startSeconds: (performance.now() - begun) / 1000 };
  });
  after("stop the cluster", async function () {
    this.timeout(300_000);
    await state?.cluster.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, maxRetries: 5 });
  });
  return {
    get cluster() {
      return started().cluster;
    },
    get folder() {
      return started().folder;
    },
    get parts() {
      return started().parts;
    },
    get startSeconds() {
      return started().startSeconds;
    },
  };
}

/** Skips a test, or all of a `describe`, where no cluster can run. */
export async function needCluster(context: Mocha.Context): Promise<void> {
  const obstacle = await clusterObstacle(process.env);
  if (obstacle !== undefined) skipFor(context, obstacle);
}

/** A fresh run folder that other users can enter. */
export async function clusterFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "cluster-"));
  await chmod(folder, 0o755);
  return folder;
}

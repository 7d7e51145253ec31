import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";

/** All that a local executor has, but for the key of its SVID: what whoever is root on its machine can read. */
export type Credentials = {
  readonly taskId: bigint;
  readonly assignmentId: string;
  readonly spiffeId: string;
  readonly capability: string;
  /** Of its bootstrap. */
  readonly pid: number;
};

/** Those of an executor in a platform's folder; of its only one unless it is named. */
export async function stealCredentials(platformFolder: string, executor?: string): Promise<Credentials> {
  const executors = path.join(platformFolder, "state/executors");
  const [name] = executor === undefined ? await readdir(executors) : [executor];
  assert.ok(name !== undefined);
  const { labels, annotations, process } = JSON.parse(
    await readFile(path.join(executors, name, "executor.json"), "utf8"),
  ) as {
    labels: Record<string, string>;
    annotations: Record<string, string>;
    process: { pid: number };
  };
  const environment = await readFile(`/proc/${process.pid}/environ`, "utf8");
  const capability = /CI_RUNNER_CAPABILITY=([^\0]*)/.exec(environment)?.[1];
  const spiffeId = annotations["ci.ddupan.top/spiffe-id"];
  const assignmentId = labels["ci.ddupan.top/assignment-id"];
  assert.ok(capability !== undefined && spiffeId !== undefined && assignmentId !== undefined);
  const taskId = BigInt(labels["ci.ddupan.top/task-id"] ?? "0");
  return { taskId, assignmentId, spiffeId, capability, pid: process.pid };
}

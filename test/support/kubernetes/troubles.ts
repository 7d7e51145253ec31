import type { WorkflowJob } from "../../../scripts/peers/gitea-api/runs.ts";
import { cancelRun, logIn } from "../../../scripts/peers/gitea-api/web-session.ts";
import { eventually } from "../eventually.ts";
import type { PushedRun } from "../push-run.ts";
import { listObjects } from "./cluster-platform.ts";
import type { Tenant, TenantOptions } from "./tenant.ts";
import type { TroubledRegistry } from "./troubled-registry.ts";
import type { ClusterUnderTest } from "./use-cluster.ts";

/** What a job meets on its way, and what is to be read of it in its log in Gitea. */
export type Trouble = {
  readonly name: string;
  readonly title: string;
  readonly tenant?: Omit<TenantOptions, "name" | "scope">;
  /** Of the executor, in the registry that has none. */
  readonly image?: "missing" | "private" | "silent";
  readonly changed?: Readonly<Record<string, string>>;
  readonly step?: string;
  /** What stands in the way before the job is pushed. */
  readonly before?: (met: Omit<Met, "run">) => Promise<void>;
  /** What happens while it waits or runs. */
  readonly meanwhile?: (met: Met) => Promise<void>;
  readonly conclusion: "success" | "failure" | "cancelled";
  /** Rows of the log, in this order; between them there may be others. */
  readonly rows: readonly (string | RegExp)[];
};

export type Met = {
  readonly cluster: ClusterUnderTest;
  readonly registry: TroubledRegistry;
  readonly tenant: Tenant;
  readonly run: PushedRun;
};

export type TroubledJob = { readonly job: WorkflowJob; readonly log: readonly string[] };

const rowMs = 120_000;
const jobMs = 300_000;

/** Has one job of a repository of its own, and a controller for it alone, meet its trouble. */
export async function meet(
  cluster: ClusterUnderTest,
  registry: TroubledRegistry,
  trouble: Trouble,
): Promise<TroubledJob> {
  const { name, image, step = "echo it runs", meanwhile } = trouble;
  const own = image === undefined ? {} : { POD_EXECUTOR_IMAGE: `${registry.host}/${image}/runner:1` };
  const changed = { ...own, ...trouble.changed };
  const repository = await cluster.repository(name);
  const scope = `${repository.owner}/${repository.name}`;
  const tenant = await cluster.tenant({ ...trouble.tenant, name, scope });
  await trouble.before?.({ cluster, registry, tenant });
  const controller = await cluster.start({ tenant, changed });
  try {
    const run = await cluster.pushTo(repository, workflowOf(step));
    await meanwhile?.({ cluster, registry, tenant, run });
    const [job] = await run.jobs(undefined, jobMs);
    if (job === undefined) throw new Error(`${name} has no job`);
    const log = await run.log(job);
    await eventually("its Pods are gone", async () => (await podsOf(cluster, tenant)).length === 0, 120_000);
    return { job, log };
  } finally {
    // Forty at once would take all of the machine.
    await controller.process.stop();
  }
}

/** Waits until the job's log has a row. */
export async function untilRow(run: PushedRun, row: RegExp): Promise<void> {
  const [job] = await run.jobs((jobs) => jobs.length > 0);
  if (job === undefined) throw new Error("there is no job");
  let last: readonly string[] = [];
  const isThere = async () => {
    // Gitea says 404 of a job that no runner has taken yet.
    last = await run.log(job).catch(() => []);
    return last.some((text) => row.test(text));
  };
  await eventually(`a row ${String(row)}`, isThere, rowMs, 300).catch((error: unknown) => {
    throw new Error(`the log is:\n${last.join("\n")}`, { cause: error });
  });
}

export async function cancel({ cluster, run }: Met): Promise<void> {
  const session = await logIn(cluster.platform.admin, soon());
  await cancelRun(session, run.repository, run.id, soon());
}

export const forImage = "Who can fix it: whoever builds the executor image.";
export const forCluster = "Who can fix it: whoever runs the cluster.";
export const forAuthor = "Who can fix it: the author of the workflow.";

const executor = String.raw`Executor: gitea-task-\d+-\d-[0-9a-f]{8}\.`;

/** The second row of an end. */
export function told(who: string, reason: string): RegExp {
  return new RegExp(String.raw`^${who} Reason: ${reason}\. ${executor}$`);
}

/** The same after the last of several attempts. */
export function toldLast(who: string, reason: string): RegExp {
  return new RegExp(
    String.raw`^${who} Reason: attempts_exhausted \(the last attempt: ${reason}\)\. ${executor}$`,
  );
}

const soon = () => AbortSignal.timeout(30_000);

export async function labelNode(
  { platform: { kubernetes } }: ClusterUnderTest,
  key: string,
  value: string,
): Promise<void> {
  const patch = { metadata: { labels: { [key]: value } } };
  await kubernetes.api.merge(`/api/v1/nodes/${kubernetes.nodeName}`, patch, soon());
}

export async function removePod(
  { platform: { kubernetes } }: ClusterUnderTest,
  namespace: string,
  name: string,
): Promise<void> {
  await kubernetes.api.remove(`/api/v1/namespaces/${namespace}/pods/${name}`, soon());
}

export type PodOfJob = {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
};

export async function podsOf(
  { platform }: ClusterUnderTest,
  { namespace }: Tenant,
): Promise<readonly PodOfJob[]> {
  return (await listObjects(platform.kubernetes, `/api/v1/namespaces/${namespace}/pods`)) as never;
}

/** The only Pod of the tenant, as soon as there is one. */
export async function onlyPod(cluster: ClusterUnderTest, tenant: Tenant): Promise<PodOfJob> {
  let pods: readonly PodOfJob[] = [];
  const isThere = async () => {
    pods = await podsOf(cluster, tenant);
    return pods.length > 0;
  };
  await eventually(`a Pod in ${tenant.namespace}`, isThere);
  const [pod, ...more] = pods;
  if (pod === undefined || more.length > 0) throw new Error(`${tenant.namespace} has ${pods.length} Pods`);
  return pod;
}

function workflowOf(step: string): string {
  const lines = step.split("\n").map((line) => `          ${line}`);
  return `on: push\njobs:\n  test:\n    runs-on: [self-hosted, pod]\n    steps:\n      - run: |\n${lines.join("\n")}\n`;
}

import {
  forAuthor,
  forCluster,
  onlyPod,
  removePod,
  told,
  type Trouble,
  untilRow,
} from "../support/kubernetes/troubles.ts";

const soon = () => AbortSignal.timeout(30_000);

/** What ends an executor whose job runs. */
export const runTroubles: readonly Trouble[] = [
  // The longest one first.
  {
    name: "deadline",
    title: "the deadline",
    // Of which the job's start is a part.
    changed: { POD_TIMEOUT_SECONDS: "100" },
    step: "echo it runs; sleep 300",
    conclusion: "failure",
    rows: [
      "it runs",
      /^This job was cut short: it ran longer than a job may\. Seen: DeadlineExceeded: Pod was active on the node longer than the specified deadline/,
      told(forAuthor, "deadline"),
    ],
  },
  {
    name: "oom",
    title: "too little memory for the job",
    changed: { POD_RESOURCES: '{"limits":{"memory":"420Mi"}}' },
    // Each is far smaller than the bootstrap, so that is what the kernel ends; and none is a program of so many pages that
    // the kernel would rather read them anew all the time.
    step: `for i in $(seq 80); do (held=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 300; echo \${#held}) & done; wait`,
    conclusion: "failure",
    rows: [
      /^This job was cut short: its executor ran out of memory\. Seen: OOMKilled, memory limit 420Mi/,
      told(forAuthor, "oom"),
    ],
  },
  {
    name: "deleted-late",
    title: "somebody who deletes its Pod while it runs",
    step: "echo it runs; sleep 300",
    meanwhile: async ({ cluster, run, tenant }) => {
      await untilRow(run, /^it runs$/);
      const { metadata } = await onlyPod(cluster, tenant);
      await removePod(cluster, tenant.namespace, metadata.name);
    },
    conclusion: "failure",
    rows: [
      "it runs",
      /^This job was cut short: its executor was deleted or killed from outside\. Seen: its Pod was deleted/,
      told(forCluster, "killed"),
    ],
  },
  {
    name: "evicted",
    title: "an eviction",
    step: "echo it runs; sleep 300",
    meanwhile: async ({ cluster, run, tenant }) => {
      await untilRow(run, /^it runs$/);
      const { namespace } = tenant;
      const { name } = (await onlyPod(cluster, tenant)).metadata;
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
      const { api } = cluster.platform.kubernetes;
      await api.create(`/api/v1/namespaces/${namespace}/pods/${name}/eviction`, eviction, soon());
    },
    conclusion: "failure",
    rows: [
      "it runs",
      /^This job was cut short: its executor was evicted from its node\. Seen: .*[Ee]vict/,
      told(forCluster, "evicted"),
    ],
  },
];

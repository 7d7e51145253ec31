import {
  cancel,
  forCluster,
  forImage,
  labelNode,
  onlyPod,
  podsOf,
  removePod,
  told,
  toldLast,
  type Trouble,
  untilRow,
} from "../support/kubernetes/troubles.ts";
import { eventually } from "../support/eventually.ts";

const soon = () => AbortSignal.timeout(30_000);
/** Times of the table that would make a test long. */
const short = { claimMs: 1_000, againMs: 500, attemptDelayMs: 500 };
/** For executors that end by themselves: however long each takes. */
const RUNNER_TIMES = JSON.stringify(short);
/** For those that do not: longer than a node takes to tell what it lacks. */
const IMPATIENT_TIMES = JSON.stringify({ ...short, startMs: 25_000 });

/** What keeps an executor from starting. */
export const startTroubles: readonly Trouble[] = [
  {
    name: "image-missing",
    title: "an image that the registry does not have",
    image: "missing",
    conclusion: "failure",
    rows: [
      /^This job never started: the image of its executor does not exist\. Seen: .*missing\/runner:1.*not found/,
      told(forImage, "image_missing"),
      "What to do: check the name and the tag of the executor image, push it, then run the job again.",
    ],
  },
  {
    name: "image-name",
    title: "an image whose name cannot be one",
    changed: { POD_EXECUTOR_IMAGE: "lab.local/UPPER:1" },
    conclusion: "failure",
    rows: [
      /^This job never started: the image of its executor, or the name of the image, cannot be used\. Seen: InvalidImageName.*must be lowercase/,
      told(forImage, "image_invalid"),
      "What to do: correct the name of the executor image, or the image itself, then run the job again.",
    ],
  },
  {
    name: "never-pull",
    title: "an image that is not on the node and must not be pulled",
    changed: { POD_EXECUTOR_IMAGE: "lab.local/absent:1" },
    tenant: { container: { imagePullPolicy: "Never" } },
    conclusion: "failure",
    rows: [
      /^This job never started: the image of its executor does not exist\. Seen: ErrImageNeverPull.*is not present with pull policy of Never/,
      told(forImage, "image_missing"),
    ],
  },
  {
    name: "pull-401",
    title: "a registry that wants a login",
    image: "private",
    conclusion: "failure",
    rows: [
      /^This job never started: the registry does not hand out the image of its executor\. Seen: .*401 Unauthorized/,
      told(forCluster, "image_pull_refused"),
      "What to do: check that the executors' service account has a pull secret that may read the image.",
    ],
  },
  {
    name: "pull-refused",
    title: "a registry that is not there",
    changed: { POD_EXECUTOR_IMAGE: "127.0.0.1:1/absent:1", RUNNER_TIMES: IMPATIENT_TIMES },
    meanwhile: ({ run }) =>
      untilRow(run, /^This job waits: .*registry.*Reason: registry_down\. Seen: .*connection refused/),
    conclusion: "failure",
    rows: [
      /^This job never started: all executors that were tried for it failed\. The last one: the registry .* Seen: .*connection refused/,
      toldLast(forCluster, "registry_down"),
    ],
  },
  {
    name: "pull-hangs",
    title: "a registry that never answers, until somebody cancels the job",
    image: "silent",
    meanwhile: async (met) => {
      await untilRow(
        met.run,
        /^This job waits: .*pulled.*Reason: image_pull_slow\. Seen: .*silent\/runner:1/,
      );
      await cancel(met);
      await met.run.jobs();
      // No kubelet ends a Pod whose pull it waits for.
      met.registry.hangUp();
    },
    conclusion: "cancelled",
    rows: [],
  },
  {
    name: "start-oom",
    title: "too little memory to start in",
    changed: { POD_RESOURCES: '{"limits":{"memory":"24Mi"}}', RUNNER_TIMES },
    conclusion: "failure",
    rows: [
      /^This job never started: all executors that were tried for it failed\. The last one: its executor ran out of memory before it had taken the job\. Seen: oom: OOMKilled, memory limit 24Mi/,
      toldLast(forCluster, "start_oom"),
      "What to do: raise the memory limit of executors.",
    ],
  },
  {
    name: "exit",
    title: "an executor that ends at its start",
    tenant: { container: { env: [{ name: "NODE_OPTIONS", value: "--no-such-option" }] } },
    changed: { RUNNER_TIMES },
    conclusion: "failure",
    rows: [
      /^This job never started: all executors that were tried for it failed\. The last one: its executor ended before it had taken the job\. Seen: exit code 9: .*--no-such-option/,
      toldLast(forImage, "start_failed"),
    ],
  },
  {
    name: "config",
    title: "a configMap that is not there",
    tenant: {
      container: {
        env: [{ name: "EXTRA", valueFrom: { configMapKeyRef: { name: "absent", key: "extra" } } }],
      },
    },
    conclusion: "failure",
    rows: [
      /^This job never started: its executor needs something that the cluster does not have or does not allow\. Seen: CreateContainerConfigError: configmap "absent" not found/,
      told(forCluster, "config_error"),
    ],
  },
  {
    name: "volume",
    title: "a secret that is not there, for a volume",
    tenant: {
      spec: { volumes: [{ name: "extra", secret: { secretName: "absent" } }] },
      container: { volumeMounts: [{ name: "extra", mountPath: "/extra" }] },
    },
    conclusion: "failure",
    rows: [
      /^This job never started: its executor needs something .* Seen: FailedMount: .*secret "absent" not found/,
      told(forCluster, "config_error"),
    ],
  },
  {
    name: "account",
    title: "a service account that is not there",
    changed: { POD_SERVICE_ACCOUNT: "absent" },
    conclusion: "failure",
    rows: [
      /^This job never started: its executor needs something .* Seen: .*service ?account .*absent.* not found/i,
      told(forCluster, "config_error"),
    ],
  },
  {
    name: "quota",
    title: "a quota, until there is room",
    before: async ({ cluster, tenant: { namespace } }) => {
      const quota = {
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { name: "none" },
        spec: { hard: { pods: "0" } },
      };
      const { api } = cluster.platform.kubernetes;
      await api.create(`/api/v1/namespaces/${namespace}/resourcequotas`, quota, soon());
      const isCounted = async () => {
        const read = await api.read(`/api/v1/namespaces/${namespace}/resourcequotas/none`, soon());
        return JSON.stringify(read["status"]).includes('"used"');
      };
      await eventually("the quota counts", isCounted);
    },
    meanwhile: async ({ cluster, run, tenant: { namespace } }) => {
      await untilRow(run, /^This job waits: .*quota.*Reason: quota\. Seen: .*exceeded quota: none/);
      const { api } = cluster.platform.kubernetes;
      await api.remove(`/api/v1/namespaces/${namespace}/resourcequotas/none`, soon());
    },
    conclusion: "success",
    rows: [/^This job waits: .*Reason: quota\./, "it runs"],
  },
  {
    name: "unschedulable",
    title: "no node that fits, until there is one",
    changed: { POD_NODE_SELECTOR: "ci-unschedulable=fits" },
    meanwhile: async ({ cluster, run }) => {
      await untilRow(
        run,
        /^This job waits: .*node.*Reason: unschedulable\. Seen: .*0\/1 nodes are available/,
      );
      await labelNode(cluster, "ci-unschedulable", "fits");
    },
    conclusion: "success",
    rows: [/^This job waits: .*Reason: unschedulable\./, "it runs"],
  },
  {
    name: "class",
    title: "a class of registration entries that nobody looks at, until somebody cancels the job",
    changed: { SPIRE_CLASS: "nobody" },
    meanwhile: async (met) => {
      await untilRow(met.run, /^This job waits: .*Reason: identity\. Seen: .*none has class "nobody"/);
      await cancel(met);
    },
    conclusion: "cancelled",
    rows: [],
  },
  {
    name: "deleted-early",
    title: "somebody who deletes its Pod before the job is taken, and runs in the next one",
    changed: { POD_NODE_SELECTOR: "ci-deleted=later", RUNNER_TIMES: JSON.stringify({ attemptDelayMs: 500 }) },
    meanwhile: async ({ cluster, run, tenant }) => {
      await untilRow(run, /Reason: unschedulable\./);
      const { metadata } = await onlyPod(cluster, tenant);
      await removePod(cluster, tenant.namespace, metadata.name);
      const isAnother = async () =>
        (await podsOf(cluster, tenant)).some((pod) => pod.metadata.labels["ci.ddupan.top/attempt"] === "2");
      await eventually("another Pod", isAnother);
      await labelNode(cluster, "ci-deleted", "later");
    },
    conclusion: "success",
    rows: ["it runs"],
  },
];

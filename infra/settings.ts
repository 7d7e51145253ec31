import { z } from "zod";
import * as kubernetes from "./pod-fields.ts";
import { podSpec } from "./pool-template.ts";
import * as field from "./setting-fields.ts";

/** A job ends 5 min before Gitea would end it, and has to have 10 min to run: anything less and none is started. */
const shortestEndless = 1200;

const gitea = z.strictObject({
  url: field.httpUrl.describe("where Gitea is, as controller and executors reach it"),
  runnerUuid: z
    .uuid("it is no UUID, as Gitea gives it with the runner's token")
    .describe("the one registration, made once by an operator"),
  endlessSeconds: z
    .int("it is no whole number of seconds")
    .min(shortestEndless, `it has to be ${shortestEndless} or more, or no job could run`)
    .max(999_999_999, "it has to be 999999999 or less")
    .default(10_800)
    .describe("Gitea's `ENDLESS_TASK_TIMEOUT`"),
});

const nats = z.strictObject({
  url: field.natsUrl.describe("the NATS server, as the controller reaches it"),
  provisionUrl: field.natsUrl.optional().describe("the same as whoever runs Pulumi reaches it"),
  user: field.word.describe("its user, who needs the JetStream API; the password is `natsPassword`"),
  ca: field.certificates.optional().describe("trust this authority only, and insist on TLS"),
  replicas: z
    .int("it is no whole number")
    .min(1, "it has to be 1 or more")
    .max(5, "it has to be 5 or less")
    .default(1)
    .describe("of streams and buckets, in a cluster of servers"),
  adopt: z.boolean().default(false).describe("take over streams that are there already"),
});

const spire = z.strictObject({
  trustDomain: field.trustDomain.describe("of all SPIFFE IDs"),
  cluster: field.pathSegment.default("homelab").describe("the cluster's name towards SPIRE"),
  className: field.className
    .default("spire-mgmt-spire")
    .describe("of the spire-controller-manager that makes our entries"),
  agentId: field.agentId
    .optional()
    .describe("the agents' SPIFFE ID, in it `{cluster}` and `{nodeUid}`; needed for Pods"),
  serverApi: field.hostAndPort
    .optional()
    .describe("SPIRE server's API; needed for the identity `guest-agent` of VMs"),
});

const pod = z.strictObject({
  capacity: field.capacity.default(4).describe("executors at once"),
  backlog: field.capacity
    .optional()
    .describe("jobs that may wait for one of these; as many as there are executors"),
  timeoutSeconds: field.timeout.describe("the longest life of an executor"),
  allowForks: z
    .boolean()
    .default(false)
    .describe("let code from forks into Pods, where it is root on the node"),
  nodeSelector: kubernetes.labels.describe("where executors run"),
  tolerations: kubernetes.tolerations.describe("and what they put up with there"),
  resources: kubernetes.resources.describe("their requests and limits"),
  runtimeClass: field.objectName.optional().describe("of executors; the node's agent has to see into it"),
  quota: kubernetes.quota
    .optional()
    .describe(
      'of their namespace, as in `{"requests.memory":"64Gi"}`, which `pod.resources` then has to name',
    ),
  pullSecrets: z
    .array(field.objectName)
    .default([])
    .describe("in the executors' namespace, made by whoever owns the registry"),
});

const pool = z.strictObject({
  runtimeClass: field.objectName.default("kata-clh-runtime-rs").describe("that starts a Pod as a microVM"),
  warm: z
    .int("it is no whole number")
    .min(0, "it has to be 0 or more")
    .default(1)
    .describe("VMs that wait for a job"),
  nodeSelector: kubernetes.labels.describe("where VMs run"),
  tolerations: kubernetes.tolerations.describe("as for Pods"),
  resources: kubernetes.resources.describe("of each VM"),
  template: podSpec.describe(
    "merged into the Pod's spec of each VM: with identity `template`, the agent that the VM is to have",
  ),
});

const vm = z.strictObject({
  label: z.enum(["vm", "vm-dev"], "it is neither vm nor vm-dev").default("vm").describe("what jobs ask for"),
  capacity: field.capacity.default(1).describe("VMs with a job at once"),
  backlog: field.capacity.optional().describe("as for Pods"),
  timeoutSeconds: field.timeout.describe("as for Pods"),
  identity: z
    .enum(["template", "guest-agent"])
    .default("template")
    .describe("how a VM comes to its identity"),
  api: field.httpUrl.describe("the OpenSandbox server; its key is `openSandboxApiKey`"),
  ca: field.certificates
    .optional()
    .describe("trust this authority only for that server, which is then https"),
  poolNamespace: field.objectName.describe("where that server keeps its pools"),
  controllerNamespace: field.objectName
    .optional()
    .describe("where OpenSandbox's controller runs, which alone may call into a VM; anybody unless given"),
  taskExecutor: field.image.describe(
    "OpenSandbox's image of its task-executor, which waits in a VM for its job",
  ),
  pool: pool.prefault({}),
});

const image = (repository: string) =>
  z.strictObject({
    repository: field.repository.default(repository).describe("its name in the registry"),
    digest: z
      .string()
      .regex(/^sha256:[0-9a-f]{64}$/, "it is no digest, as in sha256:…")
      .optional()
      .describe("what the publish workflow made; needed with `published`"),
  });

const base = field.image.optional();

const bases = z.strictObject({
  debian: base.describe("a mirror's image instead of the one that both Dockerfiles begin with"),
  node: base.describe("the same, for Node and npm"),
  giteaRunner: base.describe("the same, for the executor's gitea-runner"),
  spireAgent: base.describe("the same, for the executor's spire-agent"),
  buildx: base.describe("the same, for the executor's buildx"),
});

const images = z.strictObject({
  source: z.enum(["build", "published"]).describe("build here, or take what the publish workflows made"),
  pushRegistry: field.registry
    .optional()
    .describe("where to push what is built; `pullRegistry` unless given"),
  pullRegistry: field.registry.describe("where the cluster pulls from"),
  builder: field.word.optional().describe("of `docker buildx`, for `build`"),
  sbomGenerator: field.image
    .default("docker/buildkit-syft-scanner:stable-1")
    .describe("image that lists the packages in what is built"),
  ca: field.certificates
    .optional()
    .describe("trust this authority besides, where a build fetches packages of npm"),
  bases: bases.prefault({}),
  controller: image("gitea-dynamic-runner/controller").prefault({}),
  runner: image("gitea-dynamic-runner/runner").prefault({}),
});

const ipRange = z.cidrv4("it is no range of IPv4, as in 10.0.0.0/8");
const port = z.int("it is no port").min(1, "it is no port").max(65_535, "it is no port");

const destination = z.strictObject({
  cidr: ipRange,
  ports: z.array(port).min(1, "it names no port"),
});

const network = z.strictObject({
  policies: z.boolean().default(true).describe("restrict whom executors and controller may call"),
  internal: z
    .array(
      ipRange.refine((cidr) => !cidr.endsWith("/0"), "it is all there is: nothing would be left to call"),
    )
    .default(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"])
    .describe("what executors may not reach: the cluster, its nodes, their metadata"),
  allowed: z
    .array(destination)
    .default([])
    .describe("and what of it they may, such as Gitea and registries in the cluster's own networks"),
  controller: z
    .array(destination)
    .optional()
    .describe(
      "whom the controller may call besides DNS: NATS, Gitea, the API server, SPIRE; anybody unless given",
    ),
});

/** Everything that a stack can choose, secrets apart. The README's table is made of the descriptions. */
export const settingsSchema = z.strictObject({
  suffix: z
    .string()
    .regex(/^[a-z][a-z0-9]{0,15}$/, "it is no word of at most 16 lower-case letters and digits")
    // As these two a stack's own stream would be another stack's events or records.
    .refine(
      (suffix) => !["events", "state"].includes(suffix),
      "it is the name of a part of another stack's queue",
    )
    .optional()
    .describe("sets names of streams, subjects, namespaces and the pool apart from another stack's"),
  protect: z.boolean().default(false).describe("keep Pulumi from removing the streams and namespaces"),
  kubeContext: field.line.describe("which cluster of the KUBECONFIG"),
  components: z
    .array(z.enum(["scheduler", "pod-worker", "vm-worker"]))
    .default(["scheduler", "pod-worker", "vm-worker"])
    .describe("what the controller does"),
  gitea,
  nats,
  spire,
  pod: pod.prefault({}),
  vm: vm.optional().describe("needed with `vm-worker`"),
  images,
  network: network.prefault({}),
  controller: z
    .strictObject({
      replicas: z
        .int("it is no whole number")
        .min(1, "it has to be 1 or more")
        .max(10, "it has to be 10 or less")
        .default(2)
        .describe("of which one leads"),
      nodeSelector: kubernetes.labels.describe("where it runs; never where executors do"),
      tolerations: kubernetes.tolerations.describe("as for Pods"),
      resources: kubernetes.resources.describe("its requests and limits"),
      logLevel: z.enum(["debug", "info", "warn", "error"]).default("info").describe("JSON lines on stderr"),
    })
    .prefault({}),
  monitoring: z.boolean().default(false).describe("a PodMonitor, where the Prometheus operator is"),
});

export type Settings = z.infer<typeof settingsSchema>;

import { z } from "zod";
import type { Texts } from "../../assignment/executor-metadata.ts";
import { timeOf } from "../../kubernetes/time-of.ts";
import { executorContainer } from "./pod-spec.ts";

/** What is read of a Pod. What it does not say, or says in another form than the API declares, is absent. */
export type PodDocument = {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Texts;
  readonly annotations: Texts;
  /** By the API server's clock, milliseconds since the epoch. */
  readonly createdAt: number | undefined;
  /** Somebody has asked for its deletion. */
  readonly deleting: boolean;
  readonly nodeName: string | undefined;
  /** How long it may run on its node. */
  readonly deadlineSeconds: number | undefined;
  /** Of the executor's container, as it is written there. */
  readonly memoryLimit: string | undefined;
  readonly phase: string | undefined;
  /** Why the kubelet ended or refused the whole Pod. */
  readonly reason: string | undefined;
  readonly message: string | undefined;
  readonly conditions: readonly Condition[];
  /** The executor's container; undefined as long as no node has taken the Pod. */
  readonly executor: ContainerState | undefined;
  readonly initContainers: readonly ContainerState[];
};

export type Condition = {
  readonly type?: string | undefined;
  readonly status?: string | undefined;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
};

/** Exactly one of the three states is there, if the kubelet wrote it. */
export type ContainerState = {
  readonly name: string;
  readonly waiting?: Said | undefined;
  readonly running: boolean;
  readonly terminated?: (Said & { readonly exitCode?: number | undefined }) | undefined;
};

export type Said = { readonly reason?: string | undefined; readonly message?: string | undefined };

const text = z.string().optional().catch(undefined);
const texts = z.record(z.string(), z.string()).catch({});
const said = z.object({ reason: text, message: text }).optional().catch(undefined);
const container = z
  .object({
    name: text,
    state: z
      .object({
        waiting: said,
        running: z.looseObject({}).optional().catch(undefined),
        terminated: z
          .object({ reason: text, message: text, exitCode: z.int().optional().catch(undefined) })
          .optional()
          .catch(undefined),
      })
      .catch({}),
  })
  .catch({ state: {} });
const spec = z
  .object({
    nodeName: text,
    activeDeadlineSeconds: z.int().optional().catch(undefined),
    containers: z
      .array(
        z
          .object({
            name: text,
            resources: z.object({ limits: z.object({ memory: text }).catch({}) }).catch({ limits: {} }),
          })
          .catch({ resources: { limits: {} } }),
      )
      .catch([]),
  })
  .catch({ containers: [] });
const condition = z.object({ type: text, status: text, reason: text, message: text }).catch({});
const status = z
  .object({
    phase: text,
    reason: text,
    message: text,
    conditions: z.array(condition).catch([]),
    containerStatuses: z.array(container).catch([]),
    initContainerStatuses: z.array(container).catch([]),
  })
  .catch({ conditions: [], containerStatuses: [], initContainerStatuses: [] });
const metadata = z
  .object({
    name: text,
    uid: text,
    resourceVersion: text,
    labels: texts,
    annotations: texts,
    creationTimestamp: text,
    deletionTimestamp: text,
  })
  .catch({ labels: {}, annotations: {} });
const pod = z.object({ metadata, spec, status }).catch({
  metadata: metadata.parse(undefined),
  spec: spec.parse(undefined),
  status: status.parse(undefined),
});

/** Reads a Pod as the API gives it. Total: what is no Pod reads as one of which nothing is known. */
export function parsePod(value: unknown): PodDocument {
  const read = pod.parse(value);
  const containers = read.status.containerStatuses.map(stateOf);
  return {
    name: read.metadata.name ?? "",
    uid: read.metadata.uid ?? "",
    resourceVersion: read.metadata.resourceVersion ?? "",
    labels: read.metadata.labels,
    annotations: read.metadata.annotations,
    createdAt: timeOf(read.metadata.creationTimestamp),
    deleting: read.metadata.deletionTimestamp !== undefined,
    nodeName: read.spec.nodeName,
    deadlineSeconds: read.spec.activeDeadlineSeconds,
    memoryLimit: read.spec.containers.find(({ name }) => name === executorContainer)?.resources.limits.memory,
    phase: read.status.phase,
    reason: read.status.reason,
    message: read.status.message,
    conditions: read.status.conditions,
    executor: containers.find(({ name }) => name === executorContainer),
    initContainers: read.status.initContainerStatuses.map(stateOf),
  };
}

/** For evidence: a reason in one word of the API's, and the sentence that goes with it. */
export function wordsOf({ reason = "", message = "" }: Said): string {
  return message === "" ? reason : `${reason}: ${message}`;
}

function stateOf({ name = "", state }: z.infer<typeof container>): ContainerState {
  const { waiting, running, terminated } = state;
  return { name, waiting, running: running !== undefined, terminated };
}

import { z } from "zod";
import type { ClusterApi } from "../../../scripts/peers/cluster/api.ts";
import { sandboxGroup, sandboxVersion } from "../../../scripts/peers/opensandbox/definitions.ts";
import type { Places } from "./under-test.ts";

/** What a pool holds on to the sandboxes by that have a VM, and what their tasks do. */
export const allocationFinalizer = "pool.sandbox.opensandbox.io/pool-allocation";
export const taskFinalizer = "batch-sandbox.sandbox.opensandbox.io/task-cleanup";
const idLabel = "opensandbox.io/id";
const apiVersion = `${sandboxGroup}/${sandboxVersion}`;
const endpoints = `${sandboxGroup}/endpoints`;
const allocation = `${sandboxGroup}/alloc-status`;

/** What the server tells the task-executor in a VM to run. */
export type SandboxTask = {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

const batchSandbox = z.object({
  metadata: z.object({
    name: z.string(),
    creationTimestamp: z.string(),
    deletionTimestamp: z.string().optional(),
    labels: z.record(z.string(), z.string()).default({}),
    finalizers: z.array(z.string()).default([]),
  }),
  spec: z.object({
    poolRef: z.string().optional(),
    expireTime: z.string().optional(),
    taskTemplate: z
      .object({
        spec: z.object({
          process: z.object({
            command: z.array(z.string()),
            env: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
          }),
        }),
      })
      .optional(),
  }),
  status: z.object({ phase: z.string().optional() }).default({}),
});

/** A sandbox as the server keeps it. */
export type BatchSandbox = {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly pool: string | undefined;
  readonly finalizers: readonly string[];
  readonly isDeleted: boolean;
  readonly phase: string | undefined;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Its end, likewise. */
  readonly expiresAt: number | undefined;
  readonly task: SandboxTask | undefined;
};

export function readBatchSandbox(document: unknown): BatchSandbox {
  const { metadata, spec, status } = batchSandbox.parse(document);
  const process = spec.taskTemplate?.spec.process;
  return {
    id: metadata.name,
    labels: metadata.labels,
    pool: spec.poolRef,
    finalizers: metadata.finalizers,
    isDeleted: metadata.deletionTimestamp !== undefined,
    phase: status.phase,
    createdAt: Date.parse(metadata.creationTimestamp),
    expiresAt: spec.expireTime === undefined ? undefined : Date.parse(spec.expireTime),
    task: process && {
      command: process.command,
      environment: Object.fromEntries(process.env.map(({ name, value }) => [name, value])),
    },
  };
}

export type SandboxStatus = {
  /** `Succeed` is the word for a VM that is ready; null takes it away. */
  readonly phase: string | null;
  readonly allocated: 0 | 1;
  readonly ready: 0 | 1;
  readonly condition?: { readonly type: "PodFailed" | "PoolAllocationPending"; readonly message: string };
};

/** A VM of a pool: the name of its Pod, and its address. */
export type AllocatedVm = { readonly pool: string; readonly name: string; readonly ip: string };

/**
 * The custom resources that an OpenSandbox server works on, as the controller of pools changes them. Calls reject with what the
 * API server says; on a sandbox that is gone none is an error.
 */
export type SandboxResources = {
  /** Of the sandboxes. */
  readonly path: string;
  list(signal: AbortSignal): Promise<readonly BatchSandbox[]>;
  get(id: string, signal: AbortSignal): Promise<BatchSandbox | undefined>;
  /** Stores one past the server, as it would; resolves with its id. Nobody asks for a VM of it. */
  make(
    id: string,
    pool: string,
    labels: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<string>;
  /** The sandbox holds that VM, or none any more. */
  allocate(id: string, vm: AllocatedVm | null, signal: AbortSignal): Promise<void>;
  setStatus(id: string, status: SandboxStatus, signal: AbortSignal): Promise<void>;
  /** An empty list lets a deletion end. */
  setFinalizers(id: string, finalizers: readonly string[], signal: AbortSignal): Promise<void>;
  label(id: string, labels: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Makes the pool, or counts it anew; without places its status is left as it is. */
  setPool(name: string, most: number, places: Places | undefined, signal: AbortSignal): Promise<void>;
  removePool(name: string, signal: AbortSignal): Promise<void>;
};

const list = z.object({ items: z.array(z.unknown()) });

export function createSandboxResources(api: ClusterApi, namespace: string): SandboxResources {
  const root = `/apis/${apiVersion}/namespaces/${namespace}`;
  const path = `${root}/batchsandboxes`;
  const pools = `${root}/pools`;
  const patch = async (target: string, body: object, signal: AbortSignal) => {
    const content = { body, type: "application/merge-patch+json" };
    const { status, text } = await api.ask("PATCH", target, signal, content);
    if (status !== 200 && status !== 404) throw new Error(`PATCH ${target}: ${status} ${text.slice(0, 500)}`);
  };
  return {
    path,
    list: async (signal) => list.parse(await api.read(path, signal)).items.map(readBatchSandbox),
    get: async (id, signal) => {
      const { status, text } = await api.ask("GET", `${path}/${id}`, signal);
      if (status === 404) return undefined;
      if (status !== 200) throw new Error(`GET ${path}/${id}: ${status} ${text.slice(0, 500)}`);
      return readBatchSandbox(JSON.parse(text));
    },
    make: async (id, pool, labels, signal) => {
      const metadata = { name: id, namespace, labels: { ...labels, [idLabel]: id } };
      const sandbox = { apiVersion, kind: "BatchSandbox", metadata, spec: { replicas: 1, poolRef: pool } };
      await api.create(path, sandbox, signal);
      return id;
    },
    allocate: async (id, vm, signal) => {
      const annotations = {
        [endpoints]: vm && JSON.stringify([vm.ip]),
        [allocation]: vm && JSON.stringify({ pods: [vm.name], poolRef: vm.pool }),
      };
      await patch(`${path}/${id}`, { metadata: { annotations } }, signal);
    },
    setStatus: async (id, { phase, allocated, ready, condition }, signal) => {
      const tasks = { taskRunning: ready, taskSucceed: 0, taskFailed: 0, taskPending: 0, taskUnknown: 0 };
      const conditions = condition === undefined ? [] : [{ ...condition, status: "True" }];
      const status = { replicas: 1, allocated, ready, ...tasks, phase, conditions };
      await patch(`${path}/${id}/status`, { status }, signal);
    },
    setFinalizers: (id, finalizers, signal) => patch(`${path}/${id}`, { metadata: { finalizers } }, signal),
    label: (id, labels, signal) => patch(`${path}/${id}`, { metadata: { labels } }, signal),
    remove: (id, signal) => api.remove(`${path}/${id}`, signal),
    setPool: async (name, most, places, signal) => {
      const capacitySpec = { bufferMin: 0, bufferMax: most, poolMin: 0, poolMax: most };
      const pool = {
        apiVersion,
        kind: "Pool",
        metadata: { name },
        spec: { template: { spec: { containers: [] } }, capacitySpec },
      };
      await api.ensure(pools, pool, signal);
      await patch(`${pools}/${name}`, { spec: { capacitySpec } }, signal);
      if (places !== undefined)
        await patch(`${pools}/${name}/status`, { status: { ...places, revision: "1" } }, signal);
    },
    removePool: (name, signal) => api.remove(`${pools}/${name}`, signal),
  };
}

import type { LeasePort } from "../lifecycle/lease-keeper.ts";
import type { LeaseRecord, StoredLease } from "../lifecycle/lease.ts";
import { fieldOf, metaOf } from "./document.ts";
import { isRefusal, type KubernetesApi } from "./kubernetes-api.ts";
import { microTime } from "./micro-time.ts";

export type LeasePortOptions = {
  readonly api: Pick<KubernetesApi, "call">;
  readonly namespace: string;
  readonly name: string;
};

/**
 * A Lease of coordination.k8s.io/v1. An update replaces what a LeaseRecord says and nothing else, whoever wrote the
 * rest. Calls reject as KubernetesApi does, unless a LeasePort has another answer.
 * https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
 */
export function createLeasePort({ api, namespace, name }: LeasePortOptions): LeasePort {
  const collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const path = `${collection}/${name}`;
  /** As the server last gave it. */
  let last: unknown;

  const stored = (document: unknown): StoredLease => {
    last = document;
    return { record: recordOf(fieldOf(document, "spec")), version: metaOf(document).resourceVersion };
  };

  return {
    get: async (signal) =>
      unless("NotFound", async () => stored(await api.call({ method: "GET", path }, signal))),
    create: async (record, signal) => {
      const body = {
        apiVersion: "coordination.k8s.io/v1",
        kind: "Lease",
        metadata: { name, namespace },
        spec: specOf(record),
      };
      return unless("AlreadyExists", async () =>
        stored(await api.call({ method: "POST", path: collection, body }, signal)),
      );
    },
    update: async (record, version, signal) =>
      unless("NotFound", async () => {
        if (metaOf(last).resourceVersion !== version) stored(await api.call({ method: "GET", path }, signal));
        if (metaOf(last).resourceVersion !== version) return undefined;
        const body = { ...objectOf(last), spec: { ...objectOf(fieldOf(last, "spec")), ...specOf(record) } };
        return unless("Conflict", async () => stored(await api.call({ method: "PUT", path, body }, signal)));
      }),
  };
}

async function unless<T>(reason: string, work: () => Promise<T | undefined>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isRefusal(error, reason)) return undefined;
    throw error;
  }
}

function recordOf(spec: unknown): LeaseRecord {
  const text = (name: string) => {
    const value = fieldOf(spec, name);
    return typeof value === "string" ? value : "";
  };
  const count = (name: string) => {
    const value = fieldOf(spec, name);
    return typeof value === "number" ? value : 0;
  };
  return {
    holder: text("holderIdentity"),
    durationSeconds: count("leaseDurationSeconds"),
    acquireTime: text("acquireTime"),
    renewTime: text("renewTime"),
    transitions: count("leaseTransitions"),
  };
}

function specOf(record: LeaseRecord): Readonly<Record<string, unknown>> {
  return {
    holderIdentity: record.holder,
    leaseDurationSeconds: record.durationSeconds,
    acquireTime: microTime(record.acquireTime),
    renewTime: microTime(record.renewTime),
    leaseTransitions: record.transitions,
  };
}

function objectOf(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}

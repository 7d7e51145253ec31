import type { ApiCall, KubernetesApi, WatchEvent } from "../../../controller/kubernetes/kubernetes-api.ts";
import { ApiRefusal } from "../../../controller/kubernetes/kubernetes-api.ts";
import type { Document } from "../../fakes/kubernetes/document.ts";

/** An API server for a contract suite, with an administrator's rights. */
export type KubernetesUnderTest = AsyncDisposable & {
  readonly api: KubernetesApi;
  /** Where Pods may be made. */
  readonly namespace: string;
  /** The same server for somebody who may do nothing. */
  readonly stranger: Pick<KubernetesApi, "call">;
  /** That much time goes by. */
  pass(ms: number): Promise<void>;
};

export const none = new AbortController().signal;

let number = 0;

/** A name that no other test has, on a server that many tests share. */
export function newName(what: string): string {
  return `contract-${what}-${process.pid}-${++number}`;
}

/** The calls of a suite, with less to write. */
export function handsOn(under: KubernetesUnderTest) {
  const { api, namespace } = under;
  const call = async (request: ApiCall) => (await api.call(request, none)) as Document;
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  return {
    call,
    pods,
    list: async (path: string, query: Readonly<Record<string, string>> = {}) =>
      (await api.call({ method: "GET", path, query }, none)) as Listed,
    get: (path: string) => call({ method: "GET", path }),
    create: (path: string, body: unknown) => call({ method: "POST", path, body }),
    replace: (path: string, body: unknown) => call({ method: "PUT", path, body }),
    patch: (path: string, body: unknown, kind = "merge-patch") =>
      call({ method: "PATCH", path, body, contentType: `application/${kind}+json` }),
    remove: (path: string, body?: object) =>
      call({ method: "DELETE", path, ...(body === undefined ? {} : { body }) }),
    newPod: (pod: PodParts = {}) => call({ method: "POST", path: pods, body: aPod(newName("pod"), pod) }),
    pathOf: ({ metadata }: Document) => `${pods}/${metadata.name}`,
  };
}

export type Listed = {
  readonly kind: string;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: readonly Document[];
};

type PodParts = { readonly metadata?: object; readonly spec?: object };

/** One that nobody schedules, so that it is there as long as it is wanted; with `nodeName` it looks as if it ran. */
function aPod(name: string, { metadata, spec }: PodParts) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, ...metadata },
    spec: {
      schedulerName: "nobody",
      serviceAccountName: "gitea-task-executor",
      automountServiceAccountToken: false,
      containers: [{ name: "executor", image: "lab.local/none:1" }],
      ...spec,
    },
  };
}

/** How a call was refused: `404 NotFound`. */
export async function refusedWith(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof ApiRefusal) return `${error.status} ${error.reason}`.trim();
    throw error;
  }
  throw new Error("it was not refused");
}

/** Reads a watch event by event, as `ADDED name`. */
export function readWatch(watch: AsyncIterable<WatchEvent>) {
  const events = watch[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await events.next();
    return done === true ? undefined : value;
  };
  return {
    next,
    nextName: async () => {
      const event = await next();
      return event === undefined ? "end" : `${event.type} ${(event.object as Document).metadata.name}`;
    },
    close: async () => {
      await events.return?.();
    },
  };
}

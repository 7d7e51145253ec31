import type { KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import type { Clock } from "../../controller/platform/clock.ts";
import { deleteObject, isOver } from "./kubernetes/delete.ts";
import type { Document } from "./kubernetes/document.ts";
import { createFaults, type Faults } from "./kubernetes/faults.ts";
import { inMemoryApi } from "./kubernetes/in-memory-api.ts";
import { createOperations } from "./kubernetes/operations.ts";
import { forbidden, noSuchPath, notFound } from "./kubernetes/refused.ts";
import {
  type Call,
  type CallMatch,
  callOf,
  type FakeAnswer,
  type FakeRequest,
  fits,
} from "./kubernetes/request.ts";
import {
  apiVersionOf,
  type Resource,
  resourceOf,
  resources,
  type Target,
  targetOf,
} from "./kubernetes/resources.ts";
import { createRights, reviewPath, type Rights } from "./kubernetes/rights.ts";
import { createStore } from "./kubernetes/store.ts";
import { createFakeWatches, type FakeWatch, type FakeWatches } from "./kubernetes/watch.ts";

/**
 * A cluster's API server as far as ours goes, with the hands of whoever else is at work in a cluster. `api` speaks to it
 * without a network, so that a stepped clock is all the time there is; `serve-fake-kubernetes.ts` puts it on HTTPS.
 */
export type FakeKubernetes = Omit<Faults, "around" | "setAway"> &
  Pick<Rights, "deny" | "allowOnly" | "allowAll"> &
  Pick<FakeWatches, "sendBookmarks" | "sendLine"> & {
    readonly api: KubernetesApi;
    /** The same for whoever may do everything. */
    readonly administrator: KubernetesApi;
    /** All calls that came, watches among them. */
    readonly calls: readonly Call[];
    count(match: CallMatch): number;
    /** Creates or replaces an object, as another client does; its namespace comes to be. */
    put(document: Document): Document;
    /** By the kind and the name. */
    get(kind: string, name: string): Document | undefined;
    all(kind: string): readonly Document[];
    edit(kind: string, name: string, change: (document: Document) => Document): Document;
    /** What a Pod's status says anew; `node` has taken it. */
    setPod(name: string, status: Readonly<Record<string, unknown>>, node?: string): Document;
    /** The node has ended a Pod that is being deleted; finalizers hold it all the same. */
    finishDeletion(name: string): void;
    /** By force, past grace and finalizers. */
    remove(kind: string, name: string): void;
    /** Takes away an extension's API. */
    uninstall(group: string): void;
    /** Forgets what has been; whoever watches from before is too late. */
    compact(): void;
    readonly watches: Pick<FakeWatches, "running" | "end" | "cut" | "silence">;
    /** No call gets through and watches are cut, or all is well again. */
    setAway(away: boolean): void;
    /** For whoever brings requests from a network. Throws Refused, and CutOff for no answer. */
    handle(request: FakeRequest, signal: AbortSignal): Promise<FakeAnswer | FakeWatch>;
  };

/** A call of which no collection is the target. */
function otherCall({ method, path }: FakeRequest): Call {
  const review = path === reviewPath;
  return { verb: method === "GET" ? "get" : "create", resource: review ? "selfsubjectaccessreviews" : path };
}

const user = "system:serviceaccount:ci:controller";

/** With the namespaces of these names. */
export function createFakeKubernetes(
  clock: Clock,
  namespaces: readonly string[] = ["gitea-actions", "ci"],
): FakeKubernetes {
  const store = createStore(clock);
  const operations = createOperations(store, clock);
  const [faults, rights, watches] = [createFaults(), createRights(), createFakeWatches(store, clock)];
  const calls: Call[] = [];
  const missing = new Set<string>();

  const discover = (path: string): FakeAnswer => {
    const [, group = "", version] = /^\/apis\/([^/]+)\/([^/]+)$/.exec(path) ?? [];
    const known = resources.filter((one) => one.group === group && one.version === version);
    if (known.length === 0 || missing.has(group)) throw noSuchPath();
    const listed = known.map(({ name, kind, namespaced }) => ({ name, kind, namespaced }));
    const body = {
      kind: "APIResourceList",
      apiVersion: "v1",
      groupVersion: `${group}/${version}`,
      resources: listed,
    };
    return { status: 200, body };
  };

  const answer = async (request: FakeRequest, call: Call, target: Target | undefined, all: boolean) => {
    if (request.path === reviewPath) return rights.review(request.body);
    if (target === undefined) return discover(request.path);
    if (missing.has(target.resource.group)) throw noSuchPath();
    if (!all && !rights.allows(call)) throw forbidden(target, user, call.verb);
    if (call.verb === "watch") return watches.open(target, request.query);
    return operations[call.verb](target, request);
  };

  const handleFor = async (request: FakeRequest, signal: AbortSignal, all: boolean) => {
    const target = targetOf(request.path);
    const call = target === undefined ? otherCall(request) : callOf(request, target);
    calls.push(call);
    return await faults.around<FakeAnswer | FakeWatch>(
      call,
      () => answer(request, call, target, all),
      signal,
    );
  };
  const handle: FakeKubernetes["handle"] = (request, signal) => handleFor(request, signal, false);

  const find = (resource: Resource, name: string) =>
    store.all(resource).find(({ metadata }) => metadata.name === name);
  const existing = (resource: Resource, name: string) => {
    const document = find(resource, name);
    if (document === undefined) throw notFound(resource, name);
    return document;
  };
  const edit: FakeKubernetes["edit"] = (kind, name, change) => {
    const resource = resourceOf(kind);
    const before = existing(resource, name);
    const after = copyOf(change(before));
    return isOver(after) ? store.remove(resource, before) : store.put(resource, after);
  };
  const namespace = (name: string) => {
    const resource = resourceOf("Namespace");
    if (find(resource, name) === undefined) store.put(resource, { metadata: { name } });
  };
  namespaces.forEach(namespace);

  return {
    ...faults,
    ...rights,
    api: inMemoryApi(handle, clock),
    administrator: inMemoryApi((request, signal) => handleFor(request, signal, true), clock),
    sendBookmarks: () => watches.sendBookmarks(),
    sendLine: (line) => watches.sendLine(line),
    calls,
    count: (match) => calls.filter((call) => fits(match, call)).length,
    put: (document) => {
      const resource = resourceOf(document.kind);
      if (document.metadata.namespace !== undefined) namespace(document.metadata.namespace);
      return store.put(resource, { ...copyOf(document), apiVersion: apiVersionOf(resource) });
    },
    get: (kind, name) => find(resourceOf(kind), name),
    all: (kind) => store.all(resourceOf(kind)),
    edit,
    setPod: (name, status, node) =>
      edit("Pod", name, (pod) => ({
        ...pod,
        spec: { ...pod.spec, ...(node === undefined ? {} : { nodeName: node }) },
        status: { ...pod.status, ...status },
      })),
    finishDeletion: (name) => {
      const resource = resourceOf("Pod");
      const pod = existing(resource, name);
      if (pod.metadata.deletionTimestamp === undefined) throw new Error(`nobody has deleted Pod ${name}`);
      deleteObject(store, resource, pod, { gracePeriodSeconds: 0 }, clock.now());
    },
    remove: (kind, name) => {
      const resource = resourceOf(kind);
      store.remove(resource, existing(resource, name));
    },
    uninstall: (group) => {
      missing.add(group);
    },
    compact: () => store.compact(),
    watches,
    setAway: (away) => {
      faults.setAway(away);
      if (away) watches.cut();
    },
    handle,
  };
}

function copyOf(document: Document): Document {
  return JSON.parse(JSON.stringify(document)) as Document;
}

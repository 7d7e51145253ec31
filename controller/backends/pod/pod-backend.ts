import { backendLabel, ownerLabel, terminalLabel } from "../../assignment/executor-metadata.ts";
import { staticEntryApi } from "../../kubernetes/permissions.ts";
import { createWatchedList } from "../../kubernetes/watched-list.ts";
import { systemSteadyClock } from "../../platform/clock.ts";
import { runTasks } from "../../platform/task-group.ts";
import { createEntryKeeper } from "../../static-entries/entry-keeper.ts";
import type { Backend } from "../backend.ts";
import { createApiCollection } from "../../kubernetes/api-collection.ts";
import { asBackend } from "../as-backend.ts";
import { bindIdentity } from "./bind-identity.ts";
import { createPod } from "./create-pod.ts";
import { deleteExecutor } from "./delete-pod.ts";
import { endOverdue } from "./end-overdue.ts";
import { endPod } from "./end-pod.ts";
import { createNodeUids } from "./node-uids.ts";
import { ourPod } from "./our-pod.ts";
import { trimPodEvent } from "./pod-event.ts";
import type { PodBackendOptions } from "./pod-options.ts";
import { podCommand } from "./pod-command.ts";
import { createPodView } from "./pod-view.ts";
import { sweepPodEntries } from "./sweep-pod-entries.ts";

export type PodBackend = Backend & {
  /**
   * Watches the cluster and tells of changes, keeps the deadline, removes entries that have no executor, until the
   * signal is aborted. The executors go on without it.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Milliseconds since the watch of Pods was known to be current; undefined: never yet. */
  viewAgeMs(): number | undefined;
};

/** Executors as Pods of a Kubernetes cluster, their registration as ClusterStaticEntries. README.md tells how. */
export function createPodBackend(options: PodBackendOptions): PodBackend {
  const { api, owner, clock, steady = systemSteadyClock, random, log } = options;
  const { namespace } = options.pods;
  const paths = {
    pods: `/api/v1/namespaces/${namespace}/pods`,
    events: `/api/v1/namespaces/${namespace}/events`,
    nodes: "/api/v1/nodes",
    entries: `/apis/${staticEntryApi.group}/${staticEntryApi.version}/${staticEntryApi.resource}`,
  };
  const watch = { api, clock, steady, random, log };
  const lists = {
    pods: createWatchedList({ ...watch, path: paths.pods, labelSelector: `${ownerLabel}=${owner}` }),
    events: createWatchedList({
      ...watch,
      path: paths.events,
      fieldSelector: "involvedObject.kind=Pod",
      keep: trimPodEvent,
    }),
    entries: createWatchedList({
      ...watch,
      path: paths.entries,
      labelSelector: `${ownerLabel}=${owner},${backendLabel}=pod`,
    }),
  };
  const collection = createApiCollection(api, paths.pods);
  const nodes = createNodeUids(createApiCollection(api, paths.nodes), steady);
  const keeper = createEntryKeeper({
    ...options,
    entries: lists.entries,
    collection: createApiCollection(api, paths.entries),
    kind: "pod",
    settings: options.entries,
    onChange: (name) => view.entryMoved(name),
    steady,
  });
  const view = createPodView({ ...options, ...lists, identities: keeper, steady, collection });
  const around = { ...options, view, collection, nodes, keeper };

  return {
    kind: "pod",
    list: (signal) => asBackend("listing Pods", () => view.list(signal), signal),
    create: (request, signal) =>
      asBackend(
        `creating the Pod of ${request.metadata.assignment.id}`,
        async () => {
          const { executor, uid, isNew } = await createPod(request, around, signal);
          if (isNew) log.info({ executor: executor.name, uid }, "executor pod created");
          return executor;
        },
        signal,
      ),
    bindIdentity: (executor, signal) =>
      asBackend(`registering ${executor.name}`, () => bindIdentity(executor, around, signal), signal),
    markTerminal: (name, signal) =>
      asBackend(
        `marking Pod ${name}`,
        async () => {
          const pod = await ourPod(name, around, signal);
          if (pod === undefined || pod.labels[terminalLabel] === "true") return;
          const patch = { metadata: { uid: pod.uid, labels: { [terminalLabel]: "true" } } };
          const patched = await collection.patch(name, patch, signal);
          if (patched.kind === "done") view.note(patched.object);
          else await view.fetch(name, signal);
        },
        signal,
      ),
    kill: (name, reason, signal) =>
      asBackend(`ending Pod ${name}`, () => endPod(name, { reason }, around, signal), signal),
    delete: (name, signal) =>
      asBackend(`deleting Pod ${name}`, () => deleteExecutor(name, around, signal), signal),
    onChange: (listener) => view.onChange(listener),
    commandFor: (name, reason) => podCommand(options.pods, name, reason),
    run: (signal) =>
      runTasks(
        [
          ...Object.entries(lists).map(([name, list]) => ({
            name: `watching ${name}`,
            run: (abort: AbortSignal) => list.run(abort),
          })),
          { name: "looking at Pods", run: (abort) => view.run(abort) },
          { name: "deadlines", run: (abort) => endOverdue(around, abort) },
          {
            name: "sweep of entries",
            run: (abort) =>
              sweepPodEntries({ entries: keeper, pods: view, namespace, clock, steady, log }, abort),
          },
        ],
        signal,
      ),
    viewAgeMs: () => view.ageMs(),
  };
}

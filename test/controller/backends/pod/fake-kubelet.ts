import { isAbortOf } from "../../../../controller/platform/signal.ts";
import type { FakeClock } from "../../../fakes/fake-clock.ts";
import type { FakeKubernetes } from "../../../fakes/fake-kubernetes.ts";
import type { Document } from "../../../fakes/kubernetes/document.ts";

export type FakeKubelet = {
  /** Takes new Pods to the node by itself; on unless a test switches it off. */
  schedules: boolean;
  /** Starts what is on its node. */
  starts: boolean;
  /** Does what it is told about Pods that are to end. A node that nobody hears of does nothing. */
  obeys: boolean;
  /** The processes of a Pod on this node. */
  running(name: string): readonly string[];
  start(name: string): void;
  /** The executor's container ends by itself. */
  end(name: string, terminated: Readonly<Record<string, unknown>>): void;
  run(signal: AbortSignal): Promise<void>;
};

export const fakeNode = { name: "node-1", uid: "11111111-2222-3333-4444-555555555555" };

/** Scheduler and kubelet of a one-node cluster: they watch Pods, start them, and end them as they are told. */
export function createFakeKubelet(cluster: FakeKubernetes, clock: FakeClock): FakeKubelet {
  cluster.put({ kind: "Node", metadata: { name: fakeNode.name } });
  const statusOf = (name: string) => cluster.get("Pod", name)?.status ?? {};
  const isOver = (name: string) => ["Failed", "Succeeded"].includes(String(statusOf(name)["phase"]));
  const container = (state: unknown) => ({ containerStatuses: [{ name: "executor", state }] });

  const kubelet: FakeKubelet = {
    schedules: true,
    starts: true,
    obeys: true,
    running: (name) => (cluster.get("Pod", name) === undefined || isOver(name) ? [] : [name]),
    start: (name) => {
      cluster.setPod(name, { phase: "Running", ...container({ running: {} }) });
    },
    end: (name, terminated) => {
      const phase = terminated["exitCode"] === 0 ? "Succeeded" : "Failed";
      cluster.setPod(name, { phase, ...container({ terminated }) });
    },
    run: async (signal) => {
      const deadlines = watchDeadlines(signal);
      while (!signal.aborted) await watchPods(signal);
      await deadlines;
    },
  };

  /** As any client of the API it is cut off, and comes back. */
  const watchPods = async (signal: AbortSignal) => {
    try {
      const query = { resourceVersion: "0" };
      for await (const { type, object } of cluster.administrator.watch("/api/v1/pods", query, signal))
        if (type === "ADDED" || type === "MODIFIED") sync(object as Document);
    } catch (error) {
      if (isAbortOf(signal, error)) return;
      await clock.sleep(1_000, signal).catch(() => undefined);
    }
  };

  const sync = ({ metadata: { name, uid } }: Document) => {
    const pod = cluster.get("Pod", name);
    if (pod === undefined || pod.metadata.uid !== uid) return;
    const node = pod.spec?.["nodeName"];
    if (node === undefined) {
      if (kubelet.schedules && pod.metadata.deletionTimestamp === undefined)
        cluster.setPod(name, {}, fakeNode.name);
      return;
    }
    if (!kubelet.obeys) return;
    if (pod.status?.["startTime"] === undefined) {
      cluster.setPod(name, { startTime: new Date(clock.now()).toISOString() });
      return;
    }
    if (pod.metadata.deletionTimestamp !== undefined) {
      if (!isOver(name)) kubelet.end(name, { reason: "Error", exitCode: 143 });
      else cluster.finishDeletion(name);
    } else if (isLate(pod)) expire(name);
    else if (kubelet.starts && pod.status?.["phase"] === "Pending") kubelet.start(name);
  };

  const isLate = ({ metadata, spec = {}, status = {} }: Document) => {
    const seconds = spec["activeDeadlineSeconds"];
    const startTime = status["startTime"];
    if (typeof seconds !== "number" || typeof startTime !== "string" || isOver(metadata.name)) return false;
    // Nobody waits for a second in a test.
    return seconds === 1 || clock.now() >= Date.parse(startTime) + seconds * 1000;
  };

  const expire = (name: string) =>
    cluster.setPod(name, {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "Pod was active on the node longer than the specified deadline",
      ...container({ terminated: { reason: "Error", exitCode: 137 } }),
    });

  const watchDeadlines = async (signal: AbortSignal) => {
    try {
      for (;;) {
        await clock.sleep(1_000, signal);
        if (!kubelet.obeys) continue;
        for (const pod of cluster.all("Pod")) if (isLate(pod)) expire(pod.metadata.name);
      }
    } catch (error) {
      if (!isAbortOf(signal, error)) throw error;
    }
  };

  return kubelet;
}

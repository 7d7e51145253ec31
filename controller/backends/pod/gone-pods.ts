import type { PodDocument } from "./pod-document.ts";

/** A Pod of ours that somebody else took away, as it was last seen. */
export type GonePod = {
  readonly last: PodDocument;
  /** An uncached read says so. Until then it may only have lost its labels, and run on. */
  readonly surely: boolean;
};

/** What is remembered of Pods after their objects are gone, so that their ends can be told. In memory only. */
export type GonePods = {
  add(last: PodDocument): void;
  get(name: string): GonePod | undefined;
  all(): readonly GonePod[];
  isSure(name: string): void;
  forget(name: string): void;
};

/** A reconciler deletes them before long; a job whose Pod is forgotten has vanished without a reason. */
const mostPods = 1_000;

export function createGonePods(): GonePods {
  const pods = new Map<string, GonePod>();
  return {
    add: (last) => {
      pods.delete(last.name);
      pods.set(last.name, { last, surely: false });
      const [oldest] = pods.keys();
      if (pods.size > mostPods && oldest !== undefined) pods.delete(oldest);
    },
    get: (name) => pods.get(name),
    all: () => [...pods.values()],
    isSure: (name) => {
      const found = pods.get(name);
      if (found !== undefined) pods.set(name, { ...found, surely: true });
    },
    forget: (name) => {
      pods.delete(name);
    },
  };
}

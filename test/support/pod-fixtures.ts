import { readdirSync, readFileSync } from "node:fs";
import { type PodDocument, parsePod } from "../../controller/backends/pod/pod-document.ts";
import { parsePodEvents, type PodEvent } from "../../controller/backends/pod/pod-event.ts";

const folder = new URL("../fixtures/pod-status/", import.meta.url);

/** The names of all Pods that a kubelet has left. */
export const podFixtures: readonly string[] = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .map((file) => file.replace(/\.json$/, ""));

/** A Pod of test/fixtures/pod-status as JSON. */
export function rawPod(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(`${name}.json`, folder), "utf8")) as Record<string, unknown>;
}

export function podFixture(name: string): {
  readonly pod: PodDocument;
  readonly events: readonly PodEvent[];
} {
  const { events = [], ...pod } = rawPod(name);
  return { pod: parsePod(pod), events: parsePodEvents(events as readonly unknown[]) };
}

/** A Pod on a node, of which a kubelet says this. */
export function aPod(
  status: Record<string, unknown>,
  more: { readonly metadata?: Record<string, unknown>; readonly spec?: Record<string, unknown> } = {},
): PodDocument {
  return parsePod({
    metadata: { name: "gitea-task-42-1-00000000", uid: "0a", ...more.metadata },
    spec: { nodeName: "node-1", ...more.spec },
    status: { phase: "Pending", ...status },
  });
}

/** The status of the executor's container in this state. */
export function executorStatus(state: Record<string, unknown>): readonly unknown[] {
  return [{ name: "executor", state }];
}

import type { WatchedList } from "../../kubernetes/watched-list.ts";
import { aboutPod, parsePodEvent, parsePodEvents, type PodEvent } from "./pod-event.ts";

/** The events of our Pods, the newest of each reason. */
export type KnownEvents = {
  of(podUid: string): readonly PodEvent[];
};

/** Pods of which events are kept, those that were told of last. A Pod has few reasons. */
const mostPods = 500;
const mostReasons = 30;

/** Takes in what the list tells of Pods whose names are ours; an event may come before its Pod does. */
export function createKnownEvents(
  list: Pick<WatchedList, "onChange">,
  {
    isOurs,
    onChange,
  }: { readonly isOurs: (podName: string) => boolean; readonly onChange: (podName: string) => void },
): KnownEvents {
  const known = new Map<string, Map<string, unknown>>();

  list.onChange(({ type, object }) => {
    // One that has expired was true; what came after it says more.
    if (type === "DELETED" || type === "BOOKMARK") return;
    const { name, uid } = aboutPod(object);
    if (uid === "" || !isOurs(name)) return;
    const { at, event } = parsePodEvent(object);
    const reasons = known.get(uid) ?? new Map<string, unknown>();
    const before = reasons.get(event.reason);
    if (before !== undefined && parsePodEvent(before).at > at) return;
    setLast(reasons, event.reason, object, mostReasons);
    setLast(known, uid, reasons, mostPods);
    onChange(name);
  });

  return { of: (podUid) => parsePodEvents([...(known.get(podUid)?.values() ?? [])]) };
}

/** Puts it at the end, and drops the first if there are too many. */
function setLast<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.delete(key);
  map.set(key, value);
  const [first] = map.keys();
  if (map.size > most && first !== undefined) map.delete(first);
}

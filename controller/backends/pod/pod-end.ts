import { type FailureReason, isFailureReason } from "../../assignment/failure-reasons.ts";
import { disruptionOf } from "./disruption.ts";
import { type ContainerState, type PodDocument, wordsOf } from "./pod-document.ts";

/** What was seen of an end, and its name where it has one. */
export type PodEnd = { readonly reason: string; readonly cause?: FailureReason };

/** Our own reason for ending a Pod that stays there, written on it before, and its name where it has one. */
export const killedForAnnotation = "ci.ddupan.top/killed-for";
export const killedCauseAnnotation = "ci.ddupan.top/killed-cause";

/**
 * How a Pod ended of which nothing runs any more. Whoever took the whole Pod away counts before what became of its
 * process then: that ends with any exit code when it is told to stop.
 */
export function endOf(pod: PodDocument): PodEnd {
  const killedFor = pod.annotations[killedForAnnotation];
  if (killedFor !== undefined) {
    const cause = pod.annotations[killedCauseAnnotation];
    return { reason: killedFor, ...(cause !== undefined && isFailureReason(cause) ? { cause } : {}) };
  }
  const { executor } = pod;
  const terminated = executor?.terminated;
  const whole = wholePod(pod);
  if (whole !== undefined) return whole;
  if (terminated?.reason === "OOMKilled") {
    const limit = pod.memoryLimit === undefined ? "" : `, memory limit ${pod.memoryLimit}`;
    return { cause: "oom", reason: `OOMKilled${limit}: ${exitOf(terminated)}` };
  }
  const disruption = disruptionOf(pod);
  if (disruption !== undefined) return { cause: disruption.cause, reason: disruption.seen };
  if (pod.deleting)
    return { cause: "killed", reason: `its Pod was deleted${terminated ? `: ${exitOf(terminated)}` : ""}` };
  return terminated === undefined ? neverRan(pod) : containerEnd(terminated);
}

/** Reasons with which the kubelet ends a Pod as a whole. */
const podReasons: ReadonlyMap<string, FailureReason> = new Map([
  ["DeadlineExceeded", "deadline"],
  ["Evicted", "evicted"],
  ["Preempting", "evicted"],
  // A graceful shutdown of the node, by several versions of the kubelet.
  ["Terminated", "evicted"],
  ["NodeShutdown", "evicted"],
  ["Shutdown", "evicted"],
  ["NodeLost", "node_lost"],
]);

function wholePod({ reason, message, executor, initContainers }: PodDocument): PodEnd | undefined {
  if (reason === undefined) return undefined;
  const seen = wordsOf({ reason, message });
  const cause = podReasons.get(reason);
  // The node that was given the Pod checks for itself whether it has room for it, and fits.
  if (message?.startsWith("Pod was rejected") === true) return { cause: "node_rejected", reason: seen };
  if (cause !== undefined) return { cause, reason: seen };
  const untouched = executor === undefined && initContainers.length === 0;
  return untouched ? { cause: "node_rejected", reason: seen } : undefined;
}

type Terminated = NonNullable<ContainerState["terminated"]>;

function containerEnd(terminated: Terminated): PodEnd {
  const { reason, message = "", exitCode } = terminated;
  if (reason === "StartError" || reason === "ContainerCannotRun")
    return {
      cause: startErrorOf(message),
      reason: wordsOf({ reason, message: message.replace(preface, "") }),
    };
  if (reason === "ContainerStatusUnknown") return { cause: "vanished", reason: wordsOf(terminated) };
  // The first process of a container is sent SIGKILL from outside only, and the bootstrap takes SIGTERM itself.
  const killed = exitCode === 128 + 9 || exitCode === 128 + 15;
  return killed ? { cause: "killed", reason: exitOf(terminated) } : { reason: exitOf(terminated) };
}

/** All layers of the runtime announce the last one's words, which are what tells. */
const preface = /^.*unable to start container process: /;

/** The runtime's words for a process that could not be started. */
function startErrorOf(message: string): FailureReason {
  if (/error mounting/.test(message)) return "config_error";
  return /exec(ve)?:? |exec format error/.test(message) ? "image_invalid" : "start_failed";
}

function neverRan({ phase, reason, message, initContainers }: PodDocument): PodEnd {
  const failed = initContainers.find(({ terminated }) => (terminated?.exitCode ?? 0) !== 0);
  if (failed?.terminated !== undefined)
    return { cause: "start_failed", reason: `init container ${failed.name}: ${exitOf(failed.terminated)}` };
  return { reason: reason === undefined ? `its Pod is ${phase ?? "over"}` : wordsOf({ reason, message }) };
}

/** signal(7) on Linux. */
const signals: ReadonlyMap<number, string> = new Map([
  [2, "SIGINT"],
  [4, "SIGILL"],
  [6, "SIGABRT"],
  [7, "SIGBUS"],
  [8, "SIGFPE"],
  [9, "SIGKILL"],
  [11, "SIGSEGV"],
  [15, "SIGTERM"],
]);

function exitOf({ exitCode, message = "" }: Terminated): string {
  if (exitCode === undefined) return "ended, nobody knows how";
  const signal = signals.get(exitCode - 128);
  const last = lastLines(message);
  return `exit code ${exitCode}${signal === undefined ? "" : ` (${signal})`}${last === "" ? "" : `: ${last}`}`;
}

/** Evidence is cut at its end, and the end is what tells the most of a log. */
const lastCharacters = 300;

function lastLines(message: string): string {
  const text = message.trimEnd();
  if (text.length <= lastCharacters) return text.trimStart();
  const tail = text.slice(-lastCharacters);
  const line = tail.indexOf("\n");
  return `…${line === -1 ? tail : tail.slice(line + 1)}`;
}

import type { FailureReason } from "../../assignment/failure-reasons.ts";

/**
 * What an obstacle to a start means while it lasts. `permanent`: the job fails at once, nothing will change it.
 * `grace`: it fails after this long, because the same words are also said of what passes by itself; until then it
 * waits. `wait`: it waits for as long as the worker lets it, and after `quietMs` the job's log says so.
 */
export type Patience =
  | { readonly kind: "permanent" }
  | { readonly kind: "grace"; readonly ms: number }
  | { readonly kind: "wait"; readonly quietMs: number };

export type StartCause = {
  /** Reasons of the container's waiting state, of the condition PodScheduled, or of an event. */
  readonly seen: readonly string[];
  /** In the message; a row without takes all. */
  readonly says?: RegExp;
  readonly reason: FailureReason;
  readonly patience: Patience;
};

/**
 * The kubelet has tried at least twice by then: it repeats a pull after 10 s, a mount after half a second, and then
 * ever more rarely. And a job's log hears of it within 30 s.
 */
export const graceMs = 20_000;

/** A pull that takes no longer than this is nothing to talk about. */
export const pullQuietMs = 20_000;

const permanent: Patience = { kind: "permanent" };
const grace: Patience = { kind: "grace", ms: graceMs };
const wait: Patience = { kind: "wait", quietMs: 0 };

const pull = ["ErrImagePull", "ImagePullBackOff"];
const mount = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
const sandbox = ["FailedCreatePodSandBox"];

/**
 * Rows from the most particular to the most general; the first that fits counts. Permanent and with grace is only
 * what another executor would meet as well. The patterns hold words that no name of an image can hold.
 */
export const startCauses: readonly StartCause[] = [
  { seen: ["InvalidImageName"], reason: "image_invalid", patience: permanent },
  { seen: ["ErrImageNeverPull"], reason: "image_missing", patience: permanent },
  { seen: pull, says: /no match for platform/, reason: "image_invalid", patience: grace },
  {
    seen: pull,
    says: /40[13] (Unauthorized|Forbidden)|access denied|authentication required|authorization failed|no basic auth/,
    reason: "image_pull_refused",
    patience: grace,
  },
  {
    seen: pull,
    says: /: not found$|404 Not Found|manifest unknown|name unknown/,
    reason: "image_missing",
    patience: grace,
  },
  { seen: pull, says: /no space left on device/, reason: "node_rejected", patience: wait },
  // The kubelet's own limit, not the registry's.
  { seen: pull, says: /pull QPS exceeded/, reason: "image_pull_slow", patience: wait },
  { seen: [...pull, "RegistryUnavailable"], reason: "registry_down", patience: wait },
  { seen: ["SignatureValidationFailed"], reason: "image_pull_refused", patience: grace },
  { seen: ["CreateContainerConfigError"], reason: "config_error", patience: grace },
  {
    seen: ["CreateContainerError"],
    says: /no command specified|executable file not found|etc\/(passwd|group): no such file|unable to find (user|group)/,
    reason: "image_invalid",
    patience: grace,
  },
  { seen: ["CrashLoopBackOff"], reason: "start_failed", patience: wait },
  { seen: ["Unschedulable", "SchedulingGated"], reason: "unschedulable", patience: wait },
  // A node that has just come up gets its SPIFFE CSI driver a little later.
  { seen: mount, says: /csi\.spiffe\.io|"spire-agent-socket"/, reason: "identity", patience: wait },
  {
    seen: mount,
    says: /(secret|configmap|persistentvolumeclaim) "[^"]*" not found|hostPath type check failed|non-existent (secret|config) key/,
    reason: "config_error",
    patience: grace,
  },
  {
    seen: sandbox,
    says: /no runtime for|unknown runtime handler|runtime handler .* not supported/i,
    reason: "config_error",
    patience: grace,
  },
  { seen: [...mount, ...sandbox, "NetworkNotReady"], reason: "too_slow", patience: wait },
  { seen: ["Pulling"], reason: "image_pull_slow", patience: { kind: "wait", quietMs: pullQuietMs } },
];

/** Any other reason for which a container waits; a newer kubelet may know more of them. */
export const otherCause: Omit<StartCause, "seen"> = { reason: "too_slow", patience: wait };

/** The first row that fits; undefined for a reason that the table does not know. */
export function startCause(seen: string, message: string): StartCause | undefined {
  return startCauses.find((row) => row.seen.includes(seen) && (row.says?.test(message) ?? true));
}

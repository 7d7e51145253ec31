import type { FailureEntry, Retry } from "./failure-kind.ts";

/**
 * Why a job never started. What a new executor may change burns an attempt; what only somebody's hand can change
 * is permanent; what passes by itself (room, an outage) is waited for.
 */
export const startFailures = {
  image_missing: {
    fixer: "image",
    retry: "permanent",
    sentence: "the image of its executor does not exist",
    advice: "check the name and the tag of the executor image, push it, then run the job again",
  },
  image_invalid: {
    fixer: "image",
    retry: "permanent",
    sentence: "the image of its executor, or the name of the image, cannot be used",
    advice: "correct the name of the executor image, or the image itself, then run the job again",
  },
  image_pull_refused: {
    fixer: "cluster",
    retry: "permanent",
    sentence: "the registry does not hand out the image of its executor",
    advice: "check that the executors' service account has a pull secret that may read the image",
  },
  registry_down: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "the registry that holds the image of its executor could not be reached, or failed",
    advice: "check the registry and the way to it from the node, then run the job again",
  },
  image_pull_slow: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "the image of its executor was still being pulled when the time was up",
    advice:
      "run the job again once the image is on the node; a smaller image or a nearer registry helps for good",
  },
  config_error: {
    fixer: "cluster",
    retry: "permanent",
    sentence: "its executor needs something that the cluster does not have or does not allow",
    advice:
      "create or allow what is named (service account, secret, volume, class), or correct the Pod's patch",
  },
  quota: {
    fixer: "cluster",
    retry: "wait",
    sentence: "the quota left no room for its executor, for as long as it could wait",
    advice:
      "raise the quota, or lower the capacity of this backend so that it asks for no more than there is",
  },
  unschedulable: {
    fixer: "cluster",
    retry: "wait",
    sentence: "no node had room for its executor or fitted it, for as long as it could wait",
    advice: "add a node or free one, or correct what the Pod asks of nodes",
  },
  no_vm: {
    fixer: "cluster",
    retry: "wait",
    sentence: "the pool of VMs had no place for it, for as long as it could wait",
    advice:
      "make the pool larger, or lower the capacity of this backend so that it asks for no more than there is",
  },
  node_rejected: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "the node that was to run its executor refused it",
    advice: "look at the node's free resources and labels; the scheduler's view of them was another one",
  },
  identity: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "its executor got no identity",
    advice: "look at the SPIRE server, the agent on the node and the executor's registration entry",
  },
  docker: {
    fixer: "image",
    retry: "attempt",
    sentence: "Docker did not start in its executor",
    advice: "look at the executor's log; Docker needs a privileged container and room at /var/lib/docker",
  },
  backend_down: {
    fixer: "cluster",
    retry: "wait",
    sentence: "the backend that runs executors did not answer, for as long as it could wait",
    advice: "look at the backend's API and at the health of gitea-dynamic-runner, then run the job again",
  },
  start_failed: {
    fixer: "image",
    retry: "attempt",
    sentence: "its executor ended before it had taken the job",
    advice: "look at the executor's last log lines; the image must start the bootstrap as its main process",
  },
  start_oom: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "its executor ran out of memory before it had taken the job",
    advice: "raise the memory limit of executors",
  },
  too_slow: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "its executor did not take the job in time",
    advice: "look at the executor's events and log; it must reach the facade and be given an identity",
  },
  deleted_before_claim: {
    fixer: "cluster",
    retry: "attempt",
    sentence: "its executor went away before it had taken the job",
    advice: "look for what deletes or evicts executors; running the job again is safe, none of it ran",
  },
  attempts_exhausted: {
    fixer: "cluster",
    retry: "permanent",
    sentence: "all executors that were tried for it failed",
    advice: "look at the executors' events and logs, then run the job again",
  },
  no_time_left: {
    fixer: "cluster",
    retry: "permanent",
    sentence: "it waited so long that too little of Gitea's time limit for jobs was left to run it",
    advice:
      "run the job again; more capacity, a smaller backlog or a longer ENDLESS_TASK_TIMEOUT help for good",
  },
  queue_lost: {
    fixer: "cluster",
    retry: "permanent",
    sentence: "the queue lost it, and its content is known to nobody any more",
    advice: "run the job again, none of it ran; look for what removed NATS JetStream's data",
  },
  not_stored: {
    fixer: "cluster",
    retry: "permanent",
    sentence: "it could not be stored before gitea-dynamic-runner stopped",
    advice: "run the job again, none of it ran; look at NATS JetStream if this repeats",
  },
} as const satisfies Readonly<Record<string, FailureEntry & { readonly retry: Retry }>>;

export type StartFailureReason = keyof typeof startFailures;

import type { FailureEntry } from "./failure-kind.ts";

/** Why a job that an executor had taken came to no end of its own. There is never a second executor after that. */
export const deaths = {
  oom: {
    fixer: "workflow author",
    sentence: "its executor ran out of memory",
    advice: "make the job use less memory, or have the memory limit of executors raised",
  },
  evicted: {
    fixer: "cluster",
    sentence: "its executor was evicted from its node",
    advice: "free or add what the node was short of; a job that filled its disk has to write less",
  },
  node_lost: {
    fixer: "cluster",
    sentence: "the node of its executor was lost",
    advice: "look at the node, then run the job again",
  },
  deadline: {
    fixer: "workflow author",
    sentence: "it ran longer than a job may",
    advice: "make the job shorter or split it, or have the backend's timeout and ENDLESS_TASK_TIMEOUT raised",
  },
  killed: {
    fixer: "cluster",
    sentence: "its executor was deleted or killed from outside",
    advice: "find out who or what did that, then run the job again",
  },
  vanished: {
    fixer: "cluster",
    sentence: "its executor is gone, and nobody can say why",
    advice: "look at the events of its namespace and node, then run the job again",
  },
  silent: {
    fixer: "cluster",
    sentence: "its executor was not heard of any more",
    advice: "look at the node and at its network; a job that takes all of the CPU can cause it as well",
  },
  no_result: {
    fixer: "image",
    sentence: "its executor ended without a result",
    advice: "look at the executor's last log lines, then run the job again",
  },
  result_too_large: {
    fixer: "workflow author",
    sentence: "its result is too large to be stored",
    advice: "set fewer or smaller outputs; artifacts are the place for what is large",
  },
  cancel_ignored: {
    fixer: "workflow author",
    sentence: "it was still running when the time for its last steps was over, so it was killed",
    advice: "make the steps that run after a cancel shorter",
  },
  record_lost: {
    fixer: "cluster",
    sentence: "the record of it was lost, and its executor has ended",
    advice: "run the job again; look for what removed NATS JetStream's data",
  },
  unregistered: {
    fixer: "Gitea",
    sentence: "Gitea does not know this runner any more",
    advice: "register a runner in Gitea and give gitea-dynamic-runner its uuid and token",
  },
} as const satisfies Readonly<Record<string, FailureEntry>>;

export type DeathReason = keyof typeof deaths;

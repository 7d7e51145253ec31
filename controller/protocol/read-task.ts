import { parse } from "yaml";
import type { Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { assignmentId, type Assignment } from "../assignment/assignment.ts";
import { InvalidAssignmentError } from "../assignment/errors.ts";
import { type Failure, failureFor } from "../assignment/failure.ts";
import type { RefusalReason } from "../assignment/refusals.ts";
import { requirementOf } from "../assignment/requirements.ts";
import { IdentityError } from "../identity/errors.ts";
import { jobIdentity } from "../identity/job-identity.ts";

export type TaskReading =
  | { readonly ok: true; readonly assignment: Assignment }
  /** The task cannot be run here, ever. */
  | { readonly ok: false; readonly failure: Failure };

export type TaskPolicy = {
  readonly trustDomain: string;
  /** A privileged Pod is root on its node: a fork's code gets there only if the operator wants it. */
  readonly allowForksOnPods: boolean;
};

/** Makes an assignment of a task: backend from the payload's `runs-on`, identity from the task's context alone. */
export function readTask({ trustDomain, allowForksOnPods }: TaskPolicy, task: Task): TaskReading {
  const size = task.workflowPayload?.length ?? 0;
  if (size > maxPayloadBytes)
    return refused("bad_workflow", `the workflow has ${size} bytes, ${maxPayloadBytes} are possible`);
  const runsOn = runsOnOf(task.workflowPayload);
  if (!runsOn.ok) return refused("bad_workflow", `the workflow: ${runsOn.why}`);
  const requirement = requirementOf(runsOn.labels);
  if (!requirement.ok) return refused("labels", requirement.reason);
  try {
    const identity = jobIdentity(trustDomain, task.context ?? {});
    const id = assignmentId(task.id);
    if (identity.trust === "fork" && requirement.backend === "pod" && !allowForksOnPods)
      return refused("fork_on_pod", "");
    return { ok: true, assignment: { id, taskId: task.id, backend: requirement.backend, ...identity } };
  } catch (error) {
    if (error instanceof IdentityError || error instanceof InvalidAssignmentError)
      return refused("bad_workflow", error.message);
    throw error;
  }
}

function refused(reason: RefusalReason, evidence: string): TaskReading {
  return { ok: false, failure: failureFor(reason, evidence) };
}

/** Reading a workflow holds up everything else, seconds for this much in the worst case. */
const maxPayloadBytes = 512 * 1024;

/**
 * The time must not grow faster than the text, whoever pushed it: without the first two, 50,000 keys or anchors
 * take minutes. The last keeps the text out of our log, where a warning would quote it.
 */
const yamlOptions = {
  uniqueKeys: false,
  prettyErrors: false,
  maxAliasCount: 100,
  logLevel: "error",
} as const;

export type RunsOn =
  | { readonly ok: true; readonly labels: readonly string[] }
  /** The payload is not a workflow with one job. */
  | { readonly ok: false; readonly why: string };

/**
 * `runs-on` of the only job in a payload, the one place where a runner can read it: a label, a list, or a
 * mapping with `labels`; anything else has no label. An expression that Gitea left unevaluated is an ordinary label
 * here, which nobody offers.
 */
export function runsOnOf(payload: Uint8Array = new Uint8Array()): RunsOn {
  if (payload.length === 0) return { ok: false, why: "it is empty" };
  let workflow: unknown;
  try {
    workflow = parse(Buffer.from(payload).toString("utf8"), yamlOptions);
  } catch {
    return { ok: false, why: "it is no YAML that can be read" };
  }
  const jobs = fieldOf(workflow, "jobs");
  const all: readonly unknown[] = typeof jobs === "object" && jobs !== null ? Object.values(jobs) : [];
  if (all.length !== 1) return { ok: false, why: `it has ${all.length} jobs, a task has one` };
  return { ok: true, labels: labelsOf(fieldOf(all[0], "runs-on")) };
}

function labelsOf(runsOn: unknown): readonly string[] {
  const labels = typeof runsOn === "object" && !Array.isArray(runsOn) ? fieldOf(runsOn, "labels") : runsOn;
  if (typeof labels === "string") return [labels];
  return Array.isArray(labels) ? labels.filter((label) => typeof label === "string") : [];
}

function fieldOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

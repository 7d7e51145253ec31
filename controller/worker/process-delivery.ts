import { executorName } from "../assignment/executor-metadata.ts";
import { type AssignmentRecord, currentAttempt } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import type { AttemptHistory } from "./attempt-history.ts";
import { backendFailure, msToAttempt } from "./attempt-failure.ts";
import type { Circuit } from "./circuit.ts";
import type { Delivery, DeliveryContent, UnreadableMessage } from "./delivery.ts";
import type { Ensured } from "./ensure-executor.ts";
import { createHoldDelivery, type Look } from "./hold-delivery.ts";
import { isSettled, untilSettled, type WatchedAssignments } from "./until-settled.ts";
import type { ClaimWait } from "./wait-for-claim.ts";

export type QueueEvent =
  | "received"
  | "capacity_wait"
  | "capacity_acquired"
  | "identity_target_pending"
  | "backend_pending"
  | "backend_ready"
  | "backend_retry"
  | "claim_timeout"
  | "runner_claimed"
  | "acked";

export type ProcessDeliveryOptions = {
  readonly backend: Backend;
  readonly slots: { acquire(id: string): boolean; release(id: string): void; has(id: string): boolean };
  readonly assignments: WatchedAssignments & {
    offer(
      offer: Omit<Extract<DeliveryContent, { kind: "assignment" }>, "kind"> & { readonly sequence: number },
      signal: AbortSignal,
    ): Promise<"taken" | "conflict">;
  };
  readonly circuit: Pick<Circuit, "closedTo">;
  readonly history: Pick<AttemptHistory, "mayBe" | "failed">;
  readonly ensureExecutor: (id: string, signal: AbortSignal) => Promise<Ensured>;
  /** Resolves when there is a claim or an end, or says why there is none (yet). */
  readonly waitForClaim: (id: string, executor: Executor, signal: AbortSignal) => Promise<ClaimWait>;
  readonly event: (event: QueueEvent, assignment: string, retryDelayMs?: number) => void;
  readonly identityBound: (id: string, executor: Executor) => void;
  /** Called for each delivery that needs a key which we lack: health has to say so. */
  readonly onUnknownKey: (assignmentId: string) => void;
  /** Hears of a message that nobody can read and that names a task which has no record, before it is rejected. */
  readonly onUnreadable: (message: UnreadableMessage, signal: AbortSignal) => Promise<void>;
  readonly report: (assignment: string | undefined, error: string) => void;
  readonly times: Times;
  readonly clock: Clock;
};

const over: Look = {};

/** What is no assignment is held on to for so many deliveries at most, if Gitea cannot be told of its task. */
const lastUnreadable = 20;

/**
 * Takes one delivery to the point where its executor has claimed the task, and only then acknowledges it; a task
 * whose end is decided needs its message no more either. Every other way out hands it back with a delay or, if it
 * can never become an executor, ends it for good. Never rejects: what goes wrong is reported. The slot stays with
 * the assignment as long as there may be an executor.
 */
export function createProcessDelivery(options: ProcessDeliveryOptions) {
  const { backend, slots, assignments, circuit, history, event, report, times, clock } = options;

  const again = (name: QueueEvent, id: string, againMs: number): Look => {
    event(name, id, againMs);
    return { againMs };
  };

  const acknowledge = async (delivery: Delivery, id: string, signal: AbortSignal): Promise<Look> => {
    if (isClaimed(assignments.get(id))) event("runner_claimed", id);
    if (await delivery.acknowledge(signal)) event("acked", id);
    else report(id, "the queue did not confirm the acknowledgement");
    return over;
  };

  const bind = async (id: string, executor: Executor, signal: AbortSignal) => {
    try {
      const { bound } = await withDeadline(
        clock,
        times.callMs,
        (deadline) => backend.bindIdentity(executor, deadline),
        signal,
      );
      return bound;
    } catch (error) {
      // If it is not bound before its time is over, this is why.
      if (!signal.aborted) history.failed(id, executor.name, backendFailure(error).failure, false);
      throw error;
    }
  };

  /** Handed back until there is room for a try; whoever has no executor gives the slot to another one meanwhile. */
  const later = async (id: string, ms: number, signal: AbortSignal): Promise<Look> => {
    if (await mayHaveExecutor(id, signal)) return again("backend_pending", id, ms);
    slots.release(id);
    return again("backend_retry", id, ms);
  };

  /** Until a claim or an end makes it "settled". */
  const advance = async (id: string, signal: AbortSignal): Promise<Look | "settled"> => {
    const waitMs = slots.has(id) ? 0 : msToWait(assignments.get(id)?.record, circuit, clock.now(), times);
    if (waitMs > 0) return again("backend_retry", id, waitMs);
    if (!slots.acquire(id)) return again("capacity_wait", id, times.againMs);
    event("capacity_acquired", id);
    for (;;) {
      const ensured = await options.ensureExecutor(id, signal);
      if (ensured.kind === "settled") return "settled";
      if (ensured.kind === "wait") return later(id, ensured.ms, signal);
      const { executor } = ensured;
      if (!(await bind(id, executor, signal))) {
        event("identity_target_pending", id);
        return again("backend_pending", id, times.againMs);
      }
      options.identityBound(id, executor);
      event("backend_ready", id);
      const wait = await options.waitForClaim(id, executor, signal);
      switch (wait.kind) {
        case "settled":
          return "settled";
        case "timeout":
          report(id, `the executor ${executor.name} has not claimed its task`);
          return again("claim_timeout", id, times.againMs);
        case "look again":
          continue;
        default:
          return wait satisfies never;
      }
    }
  };

  /** Anything uncertain counts as an executor: a slot too many held is found out, one too few doubles a job. */
  const mayHaveExecutor = async (id: string, signal: AbortSignal): Promise<boolean> => {
    if (!slots.has(id)) return false;
    if (history.mayBe(id, currentExecutor(assignments.get(id)?.record))) return true;
    try {
      const { executors } = await withDeadline(
        clock,
        times.callMs,
        (deadline) => backend.list(deadline),
        signal,
      );
      return executors.some(({ metadata }) => metadata.assignment.id === id);
    } catch {
      return true;
    }
  };

  const failed = async (id: string, error: unknown, signal: AbortSignal): Promise<Look> => {
    if (signal.aborted) return { againMs: times.againMs };
    report(id, describeError(error));
    if (!(await mayHaveExecutor(id, signal))) slots.release(id);
    return again("backend_retry", id, times.retryMs);
  };

  const take = async (
    delivery: Delivery,
    content: Extract<DeliveryContent, { kind: "assignment" }>,
    signal: AbortSignal,
  ): Promise<Look> => {
    const { id } = content.assignment;
    try {
      if ((await assignments.offer({ ...content, sequence: delivery.sequence }, signal)) === "conflict") {
        report(id, `message ${delivery.sequence} says something else than what is known under this id`);
        delivery.reject("conflicting assignment");
        return over;
      }
      event("received", id);
      const look = isSettled(assignments.get(id))
        ? "settled"
        : await untilSettled(assignments, id, (abort) => advance(id, abort), signal);
      return look === "settled" ? await acknowledge(delivery, id, signal) : look;
    } catch (error) {
      return failed(id, error, signal);
    }
  };

  /** A task for which nobody else speaks would run on in Gitea until that misses it. */
  const refuse = async (
    delivery: Delivery,
    { assignmentId, reason }: Extract<DeliveryContent, { kind: "invalid" }>,
    signal: AbortSignal,
  ): Promise<Look> => {
    try {
      if (assignmentId !== undefined && assignments.get(assignmentId) === undefined) {
        const tell = (deadline: AbortSignal) => options.onUnreadable({ assignmentId, reason }, deadline);
        await withDeadline(clock, times.callMs, tell, signal);
      }
    } catch (error) {
      if (signal.aborted) return { againMs: times.againMs };
      report(assignmentId, describeError(error));
      if (delivery.deliveryCount < lastUnreadable) return { againMs: times.retryMs };
    }
    delivery.reject("invalid assignment");
    return over;
  };

  const look = async (delivery: Delivery, signal: AbortSignal): Promise<Look> => {
    const { content, sequence } = delivery;
    switch (content.kind) {
      case "invalid":
        report(content.assignmentId, `message ${sequence} is no assignment: ${content.reason}`);
        return refuse(delivery, content, signal);
      case "unknown-key":
        report(
          content.assignmentId,
          `message ${sequence} needs key ${content.keyId}, which CAPABILITY_KEY_FILE lacks`,
        );
        options.onUnknownKey(content.assignmentId);
        return { againMs: times.retryMs };
      case "assignment":
        return take(delivery, content, signal);
      default:
        return content satisfies never;
    }
  };

  return createHoldDelivery(look, times, clock);
}

/** For how long nothing can be started for an assignment, as far as that is known without asking anybody. */
function msToWait(
  record: AssignmentRecord | undefined,
  circuit: Pick<Circuit, "closedTo">,
  now: number,
  times: Times,
): number {
  if (record?.phase.name === "adopted") return 0;
  const delayed = record?.phase.name === "queued" ? msToAttempt(record.phase, now, times) : 0;
  return Math.max(delayed, circuit.closedTo()?.retryMs ?? 0);
}

function currentExecutor(record: AssignmentRecord | undefined): string | undefined {
  const attempt = record === undefined ? undefined : currentAttempt(record);
  return record === undefined || attempt === undefined ? undefined : executorName(record.assignment, attempt);
}

/** A task that was ended before it was claimed is settled as well. */
function isClaimed(known: { readonly record: AssignmentRecord } | undefined): boolean {
  return known !== undefined && "claim" in known.record.phase;
}

import { executorName } from "../assignment/executor-metadata.ts";
import { currentAttempt, type AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Delivery, DeliveryContent } from "./delivery.ts";
import type { Ensured } from "./ensure-executor.ts";

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
  readonly slots: { acquire(id: string): boolean; release(id: string): void };
  readonly assignments: {
    offer(
      offer: Omit<Extract<DeliveryContent, { kind: "assignment" }>, "kind"> & { readonly sequence: number },
      signal: AbortSignal,
    ): Promise<"taken" | "conflict">;
    get(id: string): { readonly record: AssignmentRecord } | undefined;
  };
  readonly ensureExecutor: (id: string, signal: AbortSignal) => Promise<Ensured>;
  /** Resolves when the record has left `starting`, or says why it will not (yet). */
  readonly waitForClaim: (id: string, executor: Executor, signal: AbortSignal) => Promise<ClaimWait>;
  readonly event: (event: QueueEvent, assignment: string, retryDelayMs?: number) => void;
  readonly identityBound: (id: string, executor: Executor) => void;
  readonly report: (assignment: string | undefined, error: string) => void;
  readonly times: Times;
  readonly clock: Clock;
};

export type ClaimWait =
  { readonly kind: "claimed" } | { readonly kind: "timeout" } | { readonly kind: "ended"; reason: string };

/**
 * Takes one delivery to the point where its executor has claimed the task, and only then acknowledges it. Every
 * other way out hands it back with a delay or, if it can never become an executor, ends it for good. Never
 * rejects: what goes wrong is reported. The slot stays with the assignment as long as there may be an executor.
 */
export function createProcessDelivery(options: ProcessDeliveryOptions) {
  const { backend, slots, assignments, event, report, times } = options;

  const handBack = (delivery: Delivery, name: QueueEvent, id: string, ms: number) => {
    event(name, id, ms);
    delivery.retryLater(ms);
  };

  const acknowledge = async (delivery: Delivery, id: string, signal: AbortSignal) => {
    event("runner_claimed", id);
    if (await delivery.acknowledge(signal)) event("acked", id);
    else report(id, "the queue did not confirm the acknowledgement");
  };

  const process = async (delivery: Delivery, id: string, signal: AbortSignal): Promise<void> => {
    if (isSettled(assignments.get(id))) return acknowledge(delivery, id, signal);
    if (!slots.acquire(id)) return handBack(delivery, "capacity_wait", id, times.againMs);
    event("capacity_acquired", id);
    const ensured = await options.ensureExecutor(id, signal);
    if (ensured.kind === "settled") return acknowledge(delivery, id, signal);
    const { executor } = ensured;
    const binding = await backend.bindIdentity(executor, signal);
    if (!binding.bound) {
      event("identity_target_pending", id);
      return handBack(delivery, "backend_pending", id, times.againMs);
    }
    options.identityBound(id, executor);
    event("backend_ready", id);
    const wait = await options.waitForClaim(id, executor, signal);
    switch (wait.kind) {
      case "claimed":
        return acknowledge(delivery, id, signal);
      case "timeout":
        report(id, `the executor ${executor.name} has not claimed its task`);
        return handBack(delivery, "claim_timeout", id, times.againMs);
      case "ended":
        throw new Error(`the executor ${executor.name} ended before it claimed its task: ${wait.reason}`);
      default:
        return wait satisfies never;
    }
  };

  /** Anything uncertain counts as an executor: a slot too many held is found out, one too few doubles a job. */
  const mayHaveExecutor = async (id: string, signal: AbortSignal): Promise<boolean> => {
    const record = assignments.get(id)?.record;
    const attempt = record === undefined ? undefined : currentAttempt(record);
    if (record === undefined || attempt === undefined) return false;
    try {
      const { executors } = await backend.list(signal);
      return executors.some(({ name }) => name === executorName(record.assignment, attempt));
    } catch {
      return true;
    }
  };

  const failed = async (delivery: Delivery, id: string, error: unknown, signal: AbortSignal) => {
    if (signal.aborted) {
      delivery.retryLater(times.againMs);
      return;
    }
    report(id, describeError(error));
    if (!(await mayHaveExecutor(id, signal))) slots.release(id);
    handBack(delivery, "backend_retry", id, times.retryMs);
  };

  const take = async (delivery: Delivery, signal: AbortSignal): Promise<string | undefined> => {
    const { content, sequence } = delivery;
    switch (content.kind) {
      case "invalid":
        report(undefined, `message ${sequence} is no assignment: ${content.reason}`);
        delivery.reject("invalid assignment");
        return undefined;
      case "unknown-key":
        report(undefined, `message ${sequence} needs key ${content.keyId}, which CAPABILITY_KEY_FILE lacks`);
        delivery.retryLater(times.retryMs);
        return undefined;
      case "assignment": {
        const { id } = content.assignment;
        if ((await assignments.offer({ ...content, sequence }, signal)) === "taken") return id;
        report(id, `message ${sequence} says something else than what is known under this id`);
        delivery.reject("conflicting assignment");
        return undefined;
      }
      default:
        return content satisfies never;
    }
  };

  return async (delivery: Delivery, signal: AbortSignal): Promise<void> => {
    const done = new AbortController();
    const keeping = keepInProgress(delivery, options.clock, times.inProgressMs, done.signal);
    let id: string | undefined;
    try {
      id = await take(delivery, signal);
      if (id === undefined) return;
      event("received", id);
      await process(delivery, id, signal);
    } catch (error) {
      const { content } = delivery;
      await failed(
        delivery,
        id ?? (content.kind === "assignment" ? content.assignment.id : ""),
        error,
        signal,
      );
    } finally {
      done.abort();
      await keeping;
    }
  };
}

function isSettled(live: { readonly record: AssignmentRecord } | undefined): boolean {
  const phase = live?.record.phase.name;
  return phase === "claimed" || phase === "finished";
}

async function keepInProgress(
  delivery: Delivery,
  clock: Clock,
  everyMs: number,
  done: AbortSignal,
): Promise<void> {
  while (!done.aborted) {
    await clock.sleep(everyMs, done).catch(() => undefined);
    if (!done.aborted) delivery.inProgress();
  }
}

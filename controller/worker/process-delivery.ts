import type { AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
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
  readonly slots: { acquire(id: string): boolean; release(id: string): void; has(id: string): boolean };
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

/** From this delivery on a message waits in hand: the queue gives it up at the thousandth, and with it the job. */
const lastHandBack = 500;

/** How a look at a delivery ended: for good, or to be looked at again after this many milliseconds. */
type Look = { readonly againMs?: number };

const over: Look = {};

/**
 * Takes one delivery to the point where its executor has claimed the task, and only then acknowledges it. Every
 * other way out hands it back with a delay or, if it can never become an executor, ends it for good. Never
 * rejects: what goes wrong is reported. The slot stays with the assignment as long as there may be an executor.
 */
export function createProcessDelivery(options: ProcessDeliveryOptions) {
  const { backend, slots, assignments, event, report, times, clock } = options;

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

  const process = async (delivery: Delivery, id: string, signal: AbortSignal): Promise<Look> => {
    if (isSettled(assignments.get(id))) return acknowledge(delivery, id, signal);
    if (!slots.acquire(id)) return again("capacity_wait", id, times.againMs);
    event("capacity_acquired", id);
    const ensured = await options.ensureExecutor(id, signal);
    if (ensured.kind === "settled") return acknowledge(delivery, id, signal);
    const { executor } = ensured;
    const binding = await withDeadline(
      clock,
      times.callMs,
      (deadline) => backend.bindIdentity(executor, deadline),
      signal,
    );
    if (!binding.bound) {
      event("identity_target_pending", id);
      return again("backend_pending", id, times.againMs);
    }
    options.identityBound(id, executor);
    event("backend_ready", id);
    const wait = await options.waitForClaim(id, executor, signal);
    switch (wait.kind) {
      case "claimed":
        return acknowledge(delivery, id, signal);
      case "timeout":
        report(id, `the executor ${executor.name} has not claimed its task`);
        return again("claim_timeout", id, times.againMs);
      case "ended":
        throw new Error(`the executor ${executor.name} ended before it claimed its task: ${wait.reason}`);
      default:
        return wait satisfies never;
    }
  };

  /** Anything uncertain counts as an executor: a slot too many held is found out, one too few doubles a job. */
  const mayHaveExecutor = async (id: string, signal: AbortSignal): Promise<boolean> => {
    if (!slots.has(id)) return false;
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
      return await process(delivery, id, signal);
    } catch (error) {
      return failed(id, error, signal);
    }
  };

  const look = async (delivery: Delivery, signal: AbortSignal): Promise<Look> => {
    const { content, sequence } = delivery;
    switch (content.kind) {
      case "invalid":
        report(undefined, `message ${sequence} is no assignment: ${content.reason}`);
        delivery.reject("invalid assignment");
        return over;
      case "unknown-key":
        report(undefined, `message ${sequence} needs key ${content.keyId}, which CAPABILITY_KEY_FILE lacks`);
        return { againMs: times.retryMs };
      case "assignment":
        return take(delivery, content, signal);
      default:
        return content satisfies never;
    }
  };

  return async (delivery: Delivery, signal: AbortSignal): Promise<void> => {
    const done = new AbortController();
    const keeping = keepInProgress(delivery, clock, times.inProgressMs, done.signal);
    try {
      for (;;) {
        const { againMs } = await look(delivery, signal);
        if (againMs === undefined) return;
        if (delivery.deliveryCount >= lastHandBack) await clock.sleep(againMs, signal).catch(() => undefined);
        if (delivery.deliveryCount >= lastHandBack && !signal.aborted) continue;
        delivery.retryLater(againMs);
        return;
      }
    } finally {
      done.abort();
      await keeping;
    }
  };
}

type Known = { readonly record: AssignmentRecord } | undefined;

function isSettled(known: Known): boolean {
  const phase = known?.record.phase.name;
  return phase === "claimed" || phase === "finished";
}

/** A task that was ended before it was claimed is settled as well. */
function isClaimed(known: Known): boolean {
  return known !== undefined && "claim" in known.record.phase;
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

import type { BackendKind } from "../assignment/backend-kind.ts";
import type { BackendIndependentEnvironment } from "../assignment/executor-environment.ts";
import type { ExecutorMetadata } from "../assignment/executor-metadata.ts";
import type { Failure } from "../assignment/failure.ts";
import type { FailureReason } from "../assignment/failure-reasons.ts";

export type ExecutorState =
  /** Asked for; nothing of ours runs in it yet. `waiting` says why, where the backend knows. */
  | { readonly phase: "starting"; readonly waiting?: Failure }
  /** `waiting`: what it lacks to take its job, where the backend knows. */
  | { readonly phase: "running"; readonly waiting?: Failure }
  /**
   * Nothing of it runs any more; it still has to be deleted. `reason` is what was seen, `cause` its name, where the
   * backend can tell.
   */
  | { readonly phase: "ended"; readonly reason: string; readonly cause?: FailureReason };

/** The one-shot Pod, VM or process of one attempt. */
export type Executor = {
  readonly name: string;
  readonly metadata: ExecutorMetadata;
  readonly state: ExecutorState;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
};

/** Something of ours whose metadata does not hold: reported, takes a slot, stops nothing. */
export type InvalidExecutor = {
  readonly name: string;
  readonly reason: string;
  /** As far as the backend itself knows, whatever stands on it. Milliseconds since the epoch. */
  readonly createdAt: number;
};

export type ExecutorRequest = {
  readonly metadata: ExecutorMetadata;
  readonly environment: BackendIndependentEnvironment;
  /** The backend ends it by then, whatever runs. Milliseconds since the epoch. */
  readonly deadlineAt: number;
  /**
   * The attempt was begun before: by this process, which has asked for it already, or by one that has ended meanwhile and
   * may have. Such a create may still be under way. Absent: nobody has ever asked for it.
   */
  readonly mayBeUnderWay?: true;
};

export type Binding =
  | { readonly bound: true }
  /** What the identity is bound to (a Pod's node, a VM's agent) is not known yet: ask again. */
  | { readonly bound: false };

/**
 * Where executors run. Every list is filtered by the owner, every destructive call checks it again. Calls reject
 * with BackendError; the worker and the reconciler try again according to its kind.
 */
export type Backend = {
  readonly kind: BackendKind;
  /** All executors of this owner and kind, with those that do not validate apart. */
  list(signal: AbortSignal): Promise<{
    readonly executors: readonly Executor[];
    readonly invalid: readonly InvalidExecutor[];
  }>;
  /** Creates the executor, or finds it by its name: success only if its metadata is the same and it lives. */
  create(request: ExecutorRequest, signal: AbortSignal): Promise<Executor>;
  /** Gives the executor its identity; waits at most 10 s for what it is bound to. Idempotent. */
  bindIdentity(executor: Executor, signal: AbortSignal): Promise<Binding>;
  /** Writes down that Gitea accepted the task's result. An executor that is gone counts as marked. */
  markTerminal(name: string, signal: AbortSignal): Promise<void>;
  /** Ends all of its processes; it is still there, as ended. An executor that is gone or ended is no error. */
  kill(name: string, reason: string, signal: AbortSignal): Promise<void>;
  /** Removes it with all that it left, ending it first if it must. An executor that is gone is no error. */
  delete(name: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls the listener whenever an executor may have changed its state, with its name; without one, any may have.
   * Returns how to stop that.
   */
  onChange(listener: (name?: string) => void): () => void;
  /** Set if an executor whose program has ended looks as if it ran on: then only what it says itself tells that it lives. */
  readonly endsUnseen?: true;
  /** A command with which an operator sees for himself why this executor failed, where the backend has one. */
  readonly commandFor?: (name: string, reason: FailureReason) => string;
};

/**
 * `retryable`: the same call may go through later. `terminal`: it never will, somebody has to change something.
 * `reason` names why an executor was not made, where the backend can tell.
 */
export class BackendError extends Error {
  override readonly name = "BackendError";
  readonly kind: "retryable" | "terminal";
  readonly reason: FailureReason | undefined;

  constructor(
    kind: "retryable" | "terminal",
    message: string,
    options?: ErrorOptions & { readonly reason?: FailureReason },
  ) {
    super(message, options);
    this.kind = kind;
    this.reason = options?.reason;
  }
}

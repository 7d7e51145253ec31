import type { Texts } from "../assignment/executor-metadata.ts";

/** What a sandbox is made from: a place in a pool, told what to run. */
export type NewSandbox = {
  readonly pool: string;
  readonly entrypoint: readonly string[];
  readonly environment: Texts;
  /** Stored as labels: keys and values have their form. */
  readonly metadata: Texts;
  /** The server removes it after that, whoever else has forgotten it. At least 60. */
  readonly timeoutSeconds: number;
};

/**
 * What the server says of a sandbox's life. `running` tells that a VM is there and ready, nothing of what runs in it;
 * one whose VM has ended is `pending` again, and so is one that never had any. `allocated` has a VM that is not ready.
 * `stopping` is being deleted, and may run on. `other` is a word that we do not know.
 */
export type SandboxState = "pending" | "running" | "allocated" | "stopping" | "failed" | "other";

export type Sandbox = {
  /** Chosen by the server. */
  readonly id: string;
  readonly state: SandboxState;
  /** The server's own word for the state and its reason, with its message where it has one; for people. */
  readonly words: string;
  /** It holds a place in its pool, or held one. Older servers never say so, and the answer to a create does not. */
  readonly isAllocated: boolean;
  readonly metadata: Texts;
  /** By the server's clock, milliseconds since the epoch; absent if it gave none that can be read. */
  readonly createdAt?: number;
};

export type Pool = {
  readonly name: string;
  /** Places by what they are used for; absent until the pool's controller has counted. */
  readonly places?: { readonly total: number; readonly allocated: number; readonly available: number };
};

/**
 * The Lifecycle API of an OpenSandbox server. Each call has a deadline of its own and is made once; the caller knows
 * whether it may be made again. All reject with OpenSandboxError, or with the signal's reason once that is aborted.
 */
export type OpenSandboxApi = {
  /**
   * Makes a sandbox and waits until its VM is ready, which takes as long as the server lets it (a minute or two).
   * There is no idempotency: after an outcome that is not known one may be there, now or later.
   */
  create(sandbox: NewSandbox, signal: AbortSignal): Promise<Sandbox>;
  /** Undefined if the server knows none of that id. */
  get(id: string, signal: AbortSignal): Promise<Sandbox | undefined>;
  /**
   * All sandboxes with exactly this metadata, of all pages, each once; an empty filter is an error of the caller. One that
   * is not among them may be there all the same.
   */
  list(filter: Texts, signal: AbortSignal): Promise<readonly Sandbox[]>;
  /**
   * Adds metadata; the answer is the sandbox with it, undefined if it is gone. Only keys that are new are safe, and
   * only one call for a sandbox at a time: the server writes all of its labels anew.
   */
  addMetadata(id: string, metadata: Texts, signal: AbortSignal): Promise<Sandbox | undefined>;
  /** Asks for its removal, which takes its time; false if the server knows none of that id. */
  delete(id: string, signal: AbortSignal): Promise<boolean>;
  /** Undefined if there is none of that name. */
  pool(name: string, signal: AbortSignal): Promise<Pool | undefined>;
  /** Closes the connections. */
  close(): void;
};

/**
 * - `unauthorized`: the key is wrong or cannot be read; nothing was done, and nothing goes until somebody changes that.
 * - `no_pool`: the pool does not exist; nothing was made.
 * - `no_capacity`: the pool had no place in time. The server removes what it had begun, but that may fail.
 * - `vm_failed`: the VM failed before it was ready; the server has removed it.
 * - `refused`: what was asked for is wrong, and will be; nothing was done.
 * - `outage`: no answer, or none that tells anything: what was asked for may have been done, or may yet be.
 */
export type OpenSandboxTrouble =
  "unauthorized" | "no_pool" | "no_capacity" | "vm_failed" | "refused" | "outage";

/** Its message names the call, the HTTP status, the server's code and the request's id, and quotes no request. */
export class OpenSandboxError extends Error {
  override readonly name = "OpenSandboxError";
  readonly trouble: OpenSandboxTrouble;
  /** How long the server asks to wait before the next try. */
  readonly retryAfterMs: number | undefined;

  constructor(
    trouble: OpenSandboxTrouble,
    message: string,
    options?: ErrorOptions & { readonly retryAfterMs?: number },
  ) {
    super(message, options);
    this.trouble = trouble;
    this.retryAfterMs = options?.retryAfterMs;
  }
}

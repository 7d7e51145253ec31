import type { ExecutorMetadata, Texts } from "../../assignment/executor-metadata.ts";
import type { Failure } from "../../assignment/failure.ts";
import type { Binding, Executor } from "../backend.ts";

/**
 * How a VM comes to its identity. The host's agent cannot see into a guest, so none of this is a matter of the Pod in
 * which the VM runs. All calls reject with BackendError, of reason `identity` where identity is the trouble.
 */
export type VmIdentity = {
  /**
   * What a VM of that attempt is told, `SPIFFE_ENDPOINT_SOCKET` among it. Called once for each sandbox that is asked
   * for, right before. What it prepares elsewhere ends by itself if no VM ever uses it.
   */
  prepare(metadata: ExecutorMetadata, signal: AbortSignal): Promise<Texts>;
  /** Gives the running VM of that executor its identity; `bound: false` while what it is bound to is not known. */
  bind(executor: Executor, signal: AbortSignal): Promise<Binding>;
  /** Takes it away, with all that was made for it. Called before the VM is deleted; none is no error. */
  revoke(name: string, signal: AbortSignal): Promise<void>;
  /** Why no identity comes to the running VM, where that is known. */
  lack(name: string): Failure | undefined;
  /**
   * Removes what belongs to no executor any more, until the signal is aborted. `isThere` answers whether the executor of
   * that name exists, from the backend itself and not from memory; it rejects if that cannot be told.
   */
  run(
    isThere: (name: string, signal: AbortSignal) => Promise<boolean>,
    onChange: (name: string) => void,
    signal: AbortSignal,
  ): Promise<void>;
};

import { BackendError, type Binding, type Executor } from "../backend.ts";
import { asWanted } from "./sandbox-executor.ts";
import type { VmWorld } from "./vm-world.ts";

/** Gives the VM its identity, in whatever way VMs get theirs. Rejects if it is gone, has ended or is another attempt's. */
export async function bindVm(
  { name, metadata }: Executor,
  { known, reader, identity }: Pick<VmWorld, "known" | "reader" | "identity">,
  signal: AbortSignal,
): Promise<Binding> {
  await reader.refresh(signal);
  const [found] = known.of(name);
  const executor = found && known.executorOf(found);
  if (found === undefined || executor === undefined)
    throw new BackendError("retryable", `${name} is gone, or its metadata does not hold`);
  const wanted = asWanted(executor, metadata);
  known.handOut(found.id);
  return identity.bind(wanted, signal);
}

import type { BackendKind } from "../../assignment/backend-kind.ts";
import { describeError } from "../../platform/errors.ts";
import type { Executor, ExecutorState, InvalidExecutor } from "../backend.ts";
import { belongsTo, type ExecutorFile, metadataOf } from "./executor-file.ts";
import type { ExecutorStore } from "./executor-store.ts";

/** All executors of one owner and kind. One that cannot be read or does not hold is told apart and stops nothing. */
export async function listExecutors(from: {
  readonly owner: string;
  readonly kind: BackendKind;
  readonly trustDomain: string;
  readonly store: ExecutorStore;
  readonly stateOf: (name: string, file: ExecutorFile) => ExecutorState;
}): Promise<{ readonly executors: readonly Executor[]; readonly invalid: readonly InvalidExecutor[] }> {
  const executors: Executor[] = [];
  const invalid: InvalidExecutor[] = [];
  for (const name of await from.store.names()) {
    try {
      const stored = await from.store.read(name);
      if (stored.kind === "unreadable") invalid.push({ name, reason: stored.reason });
      if (stored.kind !== "stored" || !belongsTo(stored.file, from.owner, from.kind)) continue;
      const { file } = stored;
      const metadata = metadataOf(name, file, from.trustDomain);
      executors.push({ name, metadata, state: from.stateOf(name, file), createdAt: file.createdAt });
    } catch (error) {
      invalid.push({ name, reason: describeError(error) });
    }
  }
  return { executors, invalid };
}

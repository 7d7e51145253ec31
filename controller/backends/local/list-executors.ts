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
  const tellApart = async (name: string, reason: string, known?: number) => {
    const createdAt = known ?? (await from.store.madeAt(name));
    // Gone meanwhile.
    if (createdAt !== undefined) invalid.push({ name, reason, createdAt });
  };
  for (const name of await from.store.names()) {
    let createdAt: number | undefined;
    try {
      const stored = await from.store.read(name);
      if (stored.kind === "unreadable") await tellApart(name, stored.reason);
      if (stored.kind !== "stored" || !belongsTo(stored.file, from.owner, from.kind)) continue;
      const { file } = stored;
      ({ createdAt } = file);
      const metadata = metadataOf(name, file, from.trustDomain);
      executors.push({ name, metadata, state: from.stateOf(name, file), createdAt });
    } catch (error) {
      await tellApart(name, describeError(error), createdAt);
    }
  }
  return { executors, invalid };
}

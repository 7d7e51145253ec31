import type { BackendKind } from "../../assignment/backend-kind.ts";
import type { FailureReason } from "../../assignment/failure-reasons.ts";
import type { Clock } from "../../platform/clock.ts";
import { createKeyedQueue } from "../../platform/keyed-queue.ts";
import type { Logger } from "../../platform/logger.ts";
import { abortable, isAbortOf } from "../../platform/signal.ts";
import { BackendError, type ExecutorState } from "../backend.ts";
import { endProcesses } from "./end-processes.ts";
import { belongsTo, type ExecutorFile } from "./executor-file.ts";
import { findMain, mainLives } from "./executor-processes.ts";
import { executorState } from "./executor-state.ts";
import type { ExecutorStore } from "./executor-store.ts";
import type { ProcessTable } from "./process-table.ts";
import type { Registration } from "./registration.ts";
import type { UidClaims } from "./uid-claims.ts";

/** Why we end an executor; `cause` is its name where it is the backend's own doing. */
export type EndReason = { readonly reason: string; readonly cause?: FailureReason };

/** What is done with one executor that is there: read with its owner checked, ended, discarded. */
export type ExecutorKeeper = {
  /** One work at a time for each executor. What fails in the system becomes a retryable BackendError. */
  exclusively<T>(doing: string, name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  /** What is written about it; undefined if it is gone. A terminal BackendError if it is not ours. */
  read(name: string): Promise<ExecutorFile | undefined>;
  stateOf(name: string, file: ExecutorFile): ExecutorState;
  /** Ends what runs of it and writes down why; what had ended by itself keeps its own reason. */
  end(name: string, file: ExecutorFile, why: EndReason, signal: AbortSignal): Promise<void>;
  /** Removes its registration, then its files; for one of which nothing runs. */
  discard(name: string, signal: AbortSignal): Promise<void>;
  /** From here on the executor is our child, and `exited` may be told how it ended. */
  adopt(name: string): void;
  exited(name: string, how: string): void;
};

/** An executor that is our own child. */
type Child = {
  /** How it ended, once we have been told. */
  how: string | undefined;
  readonly heard: PromiseWithResolvers<void>;
};

export function createExecutorKeeper(parts: {
  readonly kind: BackendKind;
  readonly owner: string;
  readonly graceMs: number;
  readonly store: ExecutorStore;
  readonly table: ProcessTable;
  readonly registration: Registration;
  readonly uidClaims: UidClaims;
  readonly clock: Clock;
  readonly log: Logger;
  /** An executor has ended. */
  readonly changed: (name: string) => void;
}): ExecutorKeeper {
  const { kind, owner, graceMs, store, table, registration, uidClaims, clock, log, changed } = parts;
  const queue = createKeyedQueue();
  const children = new Map<string, Child>();
  /** It has ended, and Node is about to tell how: only for a moment. */
  const unheard = (name: string, file: ExecutorFile): Child | undefined => {
    const child = children.get(name);
    if (child === undefined || child.how !== undefined || file.process === null) return undefined;
    return mainLives(file, table) ? undefined : child;
  };
  const stateOf = (name: string, file: ExecutorFile): ExecutorState => {
    if (file.ended === null && unheard(name, file) !== undefined) return { phase: "running" };
    const exit = children.get(name)?.how;
    return executorState(store.paths(name).folder, file, { table, exit, now: clock.now() });
  };

  return {
    stateOf,
    exclusively: (doing, name, signal, work) =>
      queue.run(name, async () => {
        signal.throwIfAborted();
        try {
          return await work();
        } catch (error) {
          if (error instanceof BackendError || isAbortOf(signal, error)) throw error;
          throw new BackendError("retryable", `${doing} ${name}`, { cause: error });
        }
      }),
    read: async (name) => {
      const stored = await store.read(name);
      if (stored.kind === "absent") return undefined;
      if (stored.kind === "unreadable") {
        const { folder } = store.paths(name);
        throw new BackendError(
          "terminal",
          `${stored.reason}; nobody can tell whose it is: remove ${folder} by hand`,
        );
      }
      if (belongsTo(stored.file, owner, kind)) return stored.file;
      throw new BackendError("terminal", `${name} belongs to another controller or backend`);
    },
    end: async (name, found, { reason, cause }, signal) => {
      if (found.ended !== null) return;
      const { folder } = store.paths(name);
      const main = found.process ?? findMain(folder, found, table) ?? null;
      const runs = main !== null && mainLives({ ...found, process: main }, table);
      const begun = found.killedFor === null && runs ? { killedFor: reason, cause } : {};
      const file = { ...found, process: main, ...begun };
      // Before the first signal: who looks between its end and the last line must not take it for its own.
      if (runs) await store.write(name, file);
      await endProcesses(folder, file, { table, clock, graceMs }, signal);
      const child = unheard(name, file);
      if (child !== undefined) await abortable(child.heard.promise, signal);
      const state = stateOf(name, file);
      const why = state.phase === "ended" ? state : { reason, cause };
      await store.write(name, { ...file, ended: why.reason, cause: why.cause });
      log.info({ backend: kind, executor: name, reason: why.reason, cause: why.cause }, "executor ended");
      changed(name);
    },
    discard: async (name, signal) => {
      const stored = await store.read(name);
      const uid = stored.kind === "stored" ? stored.file.uid : null;
      await registration.remove({ name, uid }, signal);
      await store.remove(name);
      if (uid !== null) await uidClaims.release(uid, store.paths(name).folder);
      children.delete(name);
    },
    adopt: (name) => {
      children.set(name, { how: undefined, heard: Promise.withResolvers() });
    },
    exited: (name, how) => {
      // Late news of one that is deleted is nobody's business.
      const child = children.get(name);
      if (child === undefined) return;
      child.how = how;
      child.heard.resolve();
    },
  };
}

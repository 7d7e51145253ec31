import { realpath } from "node:fs/promises";
import path from "node:path";
import { executorName, terminalLabel } from "../../assignment/executor-metadata.ts";
import { describeError } from "../../platform/errors.ts";
import { createKeyedQueue } from "../../platform/keyed-queue.ts";
import { isAbortOf } from "../../platform/signal.ts";
import { createWakeup } from "../../platform/wakeup.ts";
import { type Backend, BackendError, type ExecutorRequest } from "../backend.ts";
import { awaitSocket } from "./await-socket.ts";
import { checkHost, checkReachable } from "./check-host.ts";
import { existingExecutor, validMetadata } from "./existing-executor.ts";
import { belongsTo, deadlineOf, type ExecutorFile, newExecutorFile } from "./executor-file.ts";
import { createExecutorKeeper } from "./executor-keeper.ts";
import { findMain, mainLives } from "./executor-processes.ts";
import { createExecutorStore } from "./executor-store.ts";
import { makeFolder } from "./files.ts";
import { launchExecutor } from "./launch-executor.ts";
import { listExecutors } from "./list-executors.ts";
import { openRegistration } from "./local-identity.ts";
import type { LocalBackendOptions } from "./local-options.ts";
import { createProcessTable } from "./process-table.ts";
import { sweepRegistrations } from "./sweep-registrations.ts";
import { createUidClaims } from "./uid-claims.ts";
import { watchExecutors } from "./watch-executors.ts";

const bindMs = 10_000;
const defaultGraceMs = 5000;

export type LocalBackend = Backend & {
  /**
   * Looks after the executors until the signal is aborted: tells of changes, ends what a job left running, keeps
   * the deadline, removes registrations that have no executor. The executors go on without it.
   */
  run(signal: AbortSignal): Promise<void>;
};

/**
 * Executors as child processes of this machine, which survive the controller. For the quick start and tests, never
 * for untrusted code: they share kernel, network and files with everything else. Rejects where it cannot run.
 */
export async function createLocalBackend(options: LocalBackendOptions): Promise<LocalBackend> {
  checkHost(process.platform, options.nodeEnv);
  const { kind, owner, trustDomain, clock, log } = options;
  const ownUids = options.ownUids ?? process.geteuid?.() === 0;
  const registration = openRegistration(options.identity, { kind, owner, ownUids, clock });
  await makeFolder(path.join(options.folder, "executors"), 0o755);
  // Executors are known by their folder's one path.
  const folder = await realpath(path.join(options.folder, "executors"));
  if (ownUids) await checkReachable([folder, registration.folder]);
  log.warn(
    { backend: kind, ownUids },
    "jobs run as plain processes of this machine: never for untrusted code",
  );

  const listeners = new Set<(name: string) => void>();
  const changed = (name: string) => {
    for (const listener of listeners) listener(name);
  };
  const store = createExecutorStore(folder);
  const table = createProcessTable();
  const launches = createKeyedQueue();
  const wakeup = createWakeup();
  const graceMs = options.killGraceMs ?? defaultGraceMs;
  const uidClaims = createUidClaims(clock);
  const parts = { store, table, registration, uidClaims };
  const keeper = createExecutorKeeper({ ...options, ...parts, graceMs, changed });

  const list: Backend["list"] = async (signal) => {
    signal.throwIfAborted();
    return await listExecutors({ ...options, store, stateOf: (name, file) => keeper.stateOf(name, file) });
  };

  const launch = async (
    name: string,
    request: ExecutorRequest,
    signal: AbortSignal,
  ): Promise<ExecutorFile> => {
    const onExit = (how: string) => {
      keeper.exited(name, how);
      wakeup.wake();
      changed(name);
    };
    keeper.adopt(name);
    try {
      return await launchExecutor({ name, request, options, ownUids, ...parts, onExit }, signal);
    } catch (error) {
      await discardUnlessStarted(name);
      throw error;
    }
  };

  /** A process that lives is found again by its environment; what else stays is listed as ended. */
  const discardUnlessStarted = async (name: string) => {
    try {
      const file = await keeper.read(name);
      if (file === undefined || findMain(store.paths(name).folder, file, table) === undefined)
        // Whoever gave up the start does not want it to stay.
        await keeper.discard(name, new AbortController().signal);
    } catch (error) {
      log.warn({ executor: name, error: describeError(error) }, "files of a failed start were left behind");
    }
  };

  /** What is due for one executor without anybody asking. */
  const tend = (name: string, signal: AbortSignal) =>
    keeper.exclusively("looking after", name, signal, async () => {
      const read = await keeper.read(name);
      if (read === undefined || read.ended !== null) return;
      const main = read.process ?? findMain(store.paths(name).folder, read, table) ?? null;
      const file = { ...read, process: main };
      if (main !== read.process) await store.write(name, file);
      const over = main === null ? keeper.stateOf(name, file).phase === "ended" : !mainLives(file, table);
      const late = clock.now() >= deadlineOf(file, options.timeoutSeconds);
      // A kill that a controller before us began is brought to its end.
      const begun = file.killedFor !== null;
      if (over || late || begun)
        await keeper.end(name, file, { reason: "deadline", cause: "deadline" }, signal);
    });

  return {
    kind,
    list: async (signal) => {
      try {
        return await list(signal);
      } catch (error) {
        if (isAbortOf(signal, error)) throw error;
        throw new BackendError("retryable", "listing local executors", { cause: error });
      }
    },
    create: (request, signal) => {
      const { metadata } = request;
      const name = executorName(metadata.assignment, metadata.attempt);
      return keeper.exclusively("creating", name, signal, async () => {
        const { deadlineAt } = request;
        const wanted = newExecutorFile(metadata, { createdAt: clock.now(), deadlineAt, uid: null });
        validMetadata(name, wanted, trustDomain);
        if (!belongsTo(wanted, owner, kind))
          throw new BackendError("terminal", `${name} is for another controller or backend`);
        const there = await keeper.read(name);
        const file = there ?? (await launches.run("", () => launch(name, request, signal)));
        const executor = {
          name,
          metadata: validMetadata(name, file, trustDomain),
          state: there === undefined ? ({ phase: "running" } as const) : keeper.stateOf(name, file),
          createdAt: file.createdAt,
        };
        if (there !== undefined) return existingExecutor(executor, metadata);
        const { pid } = file.process ?? {};
        log.info({ backend: kind, executor: name, pid, uid: file.uid }, "executor started");
        changed(name);
        return executor;
      });
    },
    bindIdentity: async ({ name, metadata }, signal) => {
      await keeper.exclusively("registering", name, signal, async () => {
        const file = await keeper.read(name);
        if (file === undefined) throw new BackendError("retryable", `${name} is gone`);
        await registration.add({ name, spiffeId: metadata.assignment.spiffeId, uid: file.uid }, signal);
      });
      return { bound: await awaitSocket(registration.socket(name), bindMs, clock, signal) };
    },
    markTerminal: (name, signal) =>
      keeper.exclusively("marking", name, signal, async () => {
        const file = await keeper.read(name);
        if (file === undefined || file.labels[terminalLabel] === "true") return;
        await store.write(name, { ...file, labels: { ...file.labels, [terminalLabel]: "true" } });
      }),
    kill: (name, reason, signal) =>
      keeper.exclusively("killing", name, signal, async () => {
        const file = await keeper.read(name);
        if (file !== undefined) await keeper.end(name, file, { reason }, signal);
      }),
    delete: (name, signal) =>
      keeper.exclusively("deleting", name, signal, async () => {
        const file = await keeper.read(name);
        if (file !== undefined) await keeper.end(name, file, { reason: "deleted" }, signal);
        await keeper.discard(name, signal);
        if (file !== undefined) changed(name);
      }),
    onChange: (listener) => {
      const own = (name: string) => listener(name);
      listeners.add(own);
      return () => {
        listeners.delete(own);
      };
    },
    run: async (signal) => {
      await Promise.all([
        watchExecutors({ list, tend, changed, clock, log, wakeup }, signal),
        sweepRegistrations({ registration, executors: () => store.names(), clock, log }, signal),
      ]);
    },
  };
}

import { chmod, chown, writeFile } from "node:fs/promises";
import type { ExecutorRequest } from "../backend.ts";
import { BackendError } from "../backend.ts";
import { assignedIds, chooseUid, uidsOf } from "./choose-uid.ts";
import { hasErrorCode } from "./error-code.ts";
import { deadlineOf, type ExecutorFile, newExecutorFile } from "./executor-file.ts";
import { processEnvironment, runnerConfig, temporaryFolder } from "./executor-program.ts";
import type { ExecutorStore } from "./executor-store.ts";
import { makeFolder } from "./files.ts";
import type { LocalBackendOptions } from "./local-options.ts";
import type { ProcessTable } from "./process-table.ts";
import type { Registration } from "./registration.ts";
import { startProcess } from "./start-process.ts";
import type { UidClaims } from "./uid-claims.ts";

export type Launch = {
  readonly name: string;
  readonly request: ExecutorRequest;
  readonly options: LocalBackendOptions;
  readonly ownUids: boolean;
  readonly store: ExecutorStore;
  readonly table: ProcessTable;
  readonly registration: Registration;
  readonly uidClaims: UidClaims;
  readonly onExit: (how: string) => void;
};

/**
 * Starts an executor that is not there. Its file is written before the start, so that a controller that dies here
 * leaves nothing unknown, and again with the process. Two launches at a time may choose the same uid: one by one.
 */
export async function launchExecutor(launch: Launch, signal: AbortSignal): Promise<ExecutorFile> {
  const { name, request, options, store, table, registration } = launch;
  const { metadata, environment, deadlineAt } = request;
  const paths = store.paths(name);
  await makeFolder(paths.folder, 0o755);
  const reserved = await registration.reservedUids(signal);
  const uid = launch.ownUids ? await takeUid(launch, paths.folder, reserved) : null;
  const createdAt = options.clock.now();
  const file = newExecutorFile(metadata, { createdAt, deadlineAt, uid });
  await store.write(name, file);
  for (const folder of [paths.home, temporaryFolder(paths.home)]) {
    await makeFolder(folder, 0o700);
    if (uid !== null) await chown(folder, uid, uid);
  }
  const seconds = Math.max(1, Math.ceil((deadlineOf(file, options.timeoutSeconds) - createdAt) / 1000));
  await writeFile(paths.runnerConfig, runnerConfig(paths.home, seconds));
  await chmod(paths.runnerConfig, 0o644);
  await registration.add({ name, spiffeId: metadata.assignment.spiffeId, uid }, signal);

  const { node, bootstrap, args = [] } = options.program;
  const socket = registration.socket(name);
  const { giteaRunnerBinary } = options;
  const place = { ...paths, socket, node, giteaRunnerBinary };
  const start = {
    program: node,
    args: [bootstrap, ...args],
    folder: paths.home,
    environment: processEnvironment(environment, place),
    log: paths.log,
    uid,
  };
  const { pid, startTime } = await started(() => startProcess(start, table, launch.onExit));
  const running = { ...file, process: { pid, startTime, bootId: table.bootId } };
  await store.write(name, running);
  return running;
}

async function started<T>(start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    // A program that is not there or may not be run by others: trying again does not help.
    const terminal = hasErrorCode(error, "ENOENT", "EACCES", "EPERM", "ENOEXEC");
    throw new BackendError(terminal ? "terminal" : "retryable", "starting its process", { cause: error });
  }
}

async function takeUid(
  { options: { kind, random }, store, table, uidClaims }: Launch,
  folder: string,
  reserved: ReadonlySet<number>,
): Promise<number> {
  const taken = new Set([...reserved, ...(await assignedIds()), ...(await uidClaims.taken())]);
  for (const { uids } of table.living()) for (const uid of uids) taken.add(uid);
  // Also of those that have ended: their files are still there.
  for (const name of await store.names()) {
    const stored = await store.read(name);
    if (stored.kind === "stored" && stored.file.uid !== null) taken.add(stored.file.uid);
  }
  for (;;) {
    const uid = chooseUid(uidsOf(kind), taken, random);
    if (uid === undefined) throw new BackendError("retryable", "all uids for executors are taken");
    if (await uidClaims.take(uid, folder)) return uid;
    // Another controller was faster.
    taken.add(uid);
  }
}

import { z } from "zod";
import {
  backendLabel,
  executorAnnotations,
  executorLabels,
  type ExecutorMetadata,
  executorName,
  ownerLabel,
  parseExecutorMetadata,
  type Texts,
} from "../../assignment/executor-metadata.ts";
import { type BackendKind, isBackendKind } from "../../assignment/backend-kind.ts";
import { type FailureReason, isFailureReason } from "../../assignment/failure-reasons.ts";
import { InvalidAssignmentError } from "../../assignment/errors.ts";
import { uidRange } from "./choose-uid.ts";

/** Names one process for ever: a pid alone is given again, also with the same start time after a boot. */
export type ProcessRef = {
  readonly pid: number;
  /** Clock ticks since the boot, field 22 of /proc/<pid>/stat, see proc_pid_stat(5). */
  readonly startTime: number;
  /** /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
};

/** `executor.json`: all that is kept of an executor. It is found again after a restart from this alone. */
export type ExecutorFile = {
  readonly version: 1;
  readonly labels: Texts;
  readonly annotations: Texts;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** The uid that only this executor has; null: it runs as the controller's own. */
  readonly uid: number | null;
  /** The bootstrap; null from just before its start until it is known. */
  readonly process: ProcessRef | null;
  /** It is ended by then; absent in files of older controllers. Milliseconds since the epoch. */
  readonly deadlineAt?: number | undefined;
  /** Why its end was begun by us; null if it was not. */
  readonly killedFor: string | null;
  /** The name of that, or of how it ended, where one is known. */
  readonly cause?: FailureReason | undefined;
  /** Why nothing of it runs any more; null while something may. */
  readonly ended: string | null;
};

/** A name that only a newer version knows tells nothing; the text beside it still does. */
const cause = z
  .string()
  .regex(/^[a-z][a-z_]*$/)
  .transform((name) => (isFailureReason(name) ? name : undefined));

/**
 * Fields of a newer version are kept as they are, so that going back a version and forth again loses nothing. The range
 * is checked because everything of that uid is killed at the end.
 */
const schema = z.looseObject({
  version: z.literal(1),
  labels: z.record(z.string(), z.string()),
  annotations: z.record(z.string(), z.string()),
  createdAt: z.int().min(0),
  uid: z.int().min(uidRange.first).max(uidRange.last).nullable(),
  process: z
    .looseObject({ pid: z.int().min(2), startTime: z.int().min(0), bootId: z.string().min(1) })
    .nullable(),
  deadlineAt: z.int().min(0).optional(),
  killedFor: z.string().nullable(),
  cause: cause.optional(),
  ended: z.string().nullable(),
});

export function newExecutorFile(
  metadata: ExecutorMetadata,
  at: { readonly createdAt: number; readonly deadlineAt: number; readonly uid: number | null },
): ExecutorFile {
  return {
    version: 1,
    labels: executorLabels(metadata),
    annotations: executorAnnotations(metadata),
    ...at,
    deadlineAt: Math.floor(at.deadlineAt),
    process: null,
    killedFor: null,
    ended: null,
  };
}

/** By when it is ended at the latest: its own deadline, or the backend's limit. Milliseconds since the epoch. */
export function deadlineOf(
  { createdAt, deadlineAt = Infinity }: ExecutorFile,
  timeoutSeconds: number,
): number {
  return Math.min(deadlineAt, createdAt + timeoutSeconds * 1000);
}

export function serialiseExecutorFile(file: ExecutorFile): string {
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Throws an error that says on one line what is wrong. Labels and annotations are texts here, nothing more. */
export function parseExecutorFile(text: string): ExecutorFile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error("executor.json is not JSON", { cause: error });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.map(({ path, message }) => [...path, message].join(": "));
  throw new Error(`executor.json does not hold: ${issues.join("; ")}`);
}

/** Whether it is this owner's and of this kind. One whose kind cannot be read is of every kind: it must be seen. */
export function belongsTo(file: ExecutorFile, owner: string, kind: BackendKind): boolean {
  const label = file.labels[backendLabel] ?? "";
  return file.labels[ownerLabel] === owner && (label === kind || !isBackendKind(label));
}

/** The metadata, validated, for the executor of that name. Throws InvalidAssignmentError. */
export function metadataOf(name: string, file: ExecutorFile, trustDomain: string): ExecutorMetadata {
  const metadata = parseExecutorMetadata(trustDomain, file.labels, file.annotations);
  const expected = executorName(metadata.assignment, metadata.attempt);
  if (name !== expected) throw new InvalidAssignmentError(`its metadata is that of ${expected}`);
  return metadata;
}

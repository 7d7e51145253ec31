import { z } from "zod";
import { type Assignment, taskIdOf } from "../assignment/assignment.ts";
import { backendKinds } from "../assignment/backend-kind.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import { openLine, type ReadLine, readLine, sealLine } from "../identity/sealed-line.ts";

/** A task as it is kept in the queue. */
export type StoredTask = {
  readonly assignment: Assignment;
  /** When Gitea handed it out; milliseconds since the epoch. */
  readonly fetchedAt: number;
  /** The gzipped protobuf of Gitea's Task: holds the job's secrets and token. */
  readonly compressedTask: Uint8Array;
};

export type Opened =
  | ({ readonly kind: "assignment" } & StoredTask)
  /** Sealed with a key that the ring does not hold (yet): it may be opened later. */
  | { readonly kind: "unknown-key"; readonly keyId: string; readonly assignmentId: string }
  /** Nobody will ever be able to read it. The id is what it claims, if it claims one. */
  | { readonly kind: "invalid"; readonly reason: string; readonly assignmentId?: string };

/** Version 1: identity/sealed-line.ts with the fields below in clear. */
const version = 1;

const lineSchema = z.object({
  id: z.string(),
  taskId: z.string().regex(/^[1-9][0-9]{0,18}$/),
  backend: z.enum(backendKinds),
  repository: z.string().min(1),
  jobKey: z.string().min(1),
  spiffeId: z.string().min(1),
  trust: z.enum(["branch", "fork"]),
  fetchedAt: z.number().int().nonnegative(),
  key: z.string().regex(/^[0-9a-f]{8}$/),
  iv: z.base64().length(16),
});

const versionSchema = z.object({ version: z.number() });

/** Seals a task with the first key of the ring; `randomBytes` gives the initialisation vector. */
export function seal(
  ring: KeyRing,
  { assignment, fetchedAt, compressedTask }: StoredTask,
  randomBytes: (size: number) => Uint8Array,
): Uint8Array {
  const { id, taskId, backend, repository, jobKey, spiffeId, trust } = assignment;
  const header = {
    version,
    id,
    taskId: String(taskId),
    backend,
    repository,
    jobKey,
    spiffeId,
    trust,
    fetchedAt,
  };
  return sealLine(ring, header, compressedTask, randomBytes);
}

/** Opens what `seal` made. It never throws; what does not hold is told in the result, without quoting it. */
export function open(ring: KeyRing, bytes: Uint8Array): Opened {
  const parsed = parse(bytes);
  if (parsed.kind === "invalid") return parsed;
  const { header, read } = parsed;
  const { assignment, fetchedAt } = header;
  const opened = openLine(ring, read, header);
  switch (opened.kind) {
    case "opened":
      return { kind: "assignment", assignment, fetchedAt, compressedTask: opened.secret };
    case "unknown-key":
      return { kind: "unknown-key", keyId: header.key, assignmentId: assignment.id };
    case "changed":
      return invalid("it was changed after it was sealed", assignment.id);
    default:
      return opened satisfies never;
  }
}

/** The assignment that a message names in clear, without proof; undefined if it names none. */
export function namedAssignment(bytes: Uint8Array): string | undefined {
  const parsed = parse(bytes);
  return parsed.kind === "header" ? parsed.header.assignment.id : parsed.assignmentId;
}

type Header = {
  readonly assignment: Assignment;
  readonly fetchedAt: number;
  readonly key: string;
  readonly iv: string;
};

type Parsed =
  | {
      readonly kind: "header";
      readonly header: Header;
      readonly read: ReadLine;
    }
  | Extract<Opened, { kind: "invalid" }>;

function parse(bytes: Uint8Array): Parsed {
  const read = readLine(bytes);
  if (read === undefined) return invalid("it does not begin with a line of JSON");
  const { value } = read;
  const stated = versionSchema.safeParse(value);
  if (!stated.success) return invalid("it has no version");
  if (stated.data.version !== version)
    return invalid(`version ${stated.data.version} is not known`, claimed(value));
  const result = lineSchema.safeParse(value);
  if (!result.success) {
    const fields = new Set(result.error.issues.map(({ path }) => path.join(".")));
    return invalid(`its fields ${[...fields].join(", ")} are missing or malformed`, claimed(value));
  }
  const { taskId, key, iv, fetchedAt, ...fields } = result.data;
  const assignment = { ...fields, taskId: BigInt(taskId) };
  if (taskIdOf(assignment.id) !== assignment.taskId) return invalid("its id and task id differ");
  return { kind: "header", header: { assignment, fetchedAt, key, iv }, read };
}

function claimed(value: unknown): string | undefined {
  const result = z.object({ id: z.string().refine((id) => taskIdOf(id) !== undefined) }).safeParse(value);
  return result.success ? result.data.id : undefined;
}

function invalid(reason: string, id?: string): Extract<Opened, { kind: "invalid" }> {
  return { kind: "invalid", reason, ...(id === undefined ? {} : { assignmentId: id }) };
}

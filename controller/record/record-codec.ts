import { z } from "zod";
import { taskIdOf } from "../assignment/assignment.ts";
import { backendKinds } from "../assignment/backend-kind.ts";
import { type Failure, failureFor } from "../assignment/failure.ts";
import { type FailureReason, isFailureReason } from "../assignment/failure-reasons.ts";
import type { AssignmentRecord } from "../assignment/record.ts";

/** Which write of which process made a value: tells our own write, whose answer got lost, from another's. */
export type Writer = {
  readonly id: string;
  readonly counter: number;
  /**
   * How many writes, of all processes, have made the record what it is; absent in records of older versions. One with
   * fewer than were seen before is an old one: the bucket has lost its end.
   */
  readonly writes?: number;
};

export type Decoded =
  | { readonly ok: true; readonly record: AssignmentRecord; readonly writer: Writer }
  | { readonly ok: false; readonly reason: string };

const time = z.number().int().nonnegative();
const count = z.number().int().nonnegative();
const result = z.enum(["success", "failure", "cancelled", "skipped"]);

const assignment = z
  .object({
    id: z.string(),
    taskId: z
      .string()
      .regex(/^[1-9][0-9]{0,18}$/)
      .transform((text) => BigInt(text)),
    backend: z.enum(backendKinds),
    repository: z.string().min(1),
    jobKey: z.string().min(1),
    spiffeId: z.string().min(1),
    trust: z.enum(["branch", "fork"]),
  })
  .refine(({ id, taskId }) => taskIdOf(id) === taskId, "id and task id differ");

const attempt = z.object({ number: z.number().int().positive(), nonce: z.string().regex(/^[0-9a-f]{32}$/) });

const claim = z.object({ instance: z.string().min(1), logRows: count, at: time });

const reason = z.string().regex(/^[a-z][a-z_]*$/, "no name of a reason");

/** A failure whose reason only a newer version knows is told as another one; the evidence has the name. */
const failureElse = (instead: FailureReason) =>
  z.object({ reason, evidence: z.string(), last: reason.exactOptional() }).transform((read): Failure => {
    const { evidence, last } = read;
    if (!isFailureReason(read.reason)) return failureFor(instead, `${read.reason}: ${evidence}`);
    return {
      reason: read.reason,
      evidence,
      ...(last === undefined ? {} : { last: isFailureReason(last) ? last : "start_failed" }),
    };
  });

const report = z.object({ result, key: z.string().min(1), parts: count, bytes: count });

const end = z.discriminatedUnion("by", [
  z.object({ by: z.literal("executor"), report }),
  z.object({
    by: z.literal("controller"),
    result: z.enum(["failure", "cancelled"]),
    failure: failureElse("no_result").exactOptional(),
    executorGone: z.boolean(),
  }),
]);

const phase = z.discriminatedUnion("name", [
  z.object({ name: z.literal("queued"), notBefore: time }),
  z.object({ name: z.literal("starting"), attempt, since: time, deadlineAt: time }),
  z.object({ name: z.literal("adopted"), attempt, since: time }),
  z.object({
    name: z.literal("claimed"),
    attempt,
    claim,
    deadlineAt: time.exactOptional(),
    cancelledAt: time.exactOptional(),
  }),
  z.object({
    name: z.literal("ending"),
    attempt: attempt.exactOptional(),
    claim: claim.exactOptional(),
    end,
    since: time,
  }),
  z.object({
    name: z.literal("finished"),
    attempt: attempt.exactOptional(),
    claim: claim.exactOptional(),
    result,
    by: z.enum(["executor", "controller", "gitea"]),
    at: time,
  }),
]);

/** Gitea is told of it. */
const timeText = z.string().refine((text) => !Number.isNaN(Date.parse(text)), "no time");

const step = z.object({
  id: z.number().int(),
  result: result.exactOptional(),
  startedAt: timeText.exactOptional(),
  stoppedAt: timeText.exactOptional(),
  logIndex: count,
  logLength: count,
});

const recordSchema = z.object({
  assignment,
  fetchedAt: time,
  sequence: count,
  rowsBegun: z.boolean(),
  attempts: z.object({ begun: count, burnt: count, lost: failureElse("start_failed").exactOptional() }),
  steps: z.array(step),
  phase,
});

/**
 * Fields of a newer version are ignored, so that going back a version stops nothing; it may leave one out that this
 * version has added. So a field that is added has to be optional.
 */
const value = z.object({
  writer: z.object({ id: z.string(), counter: z.number().int(), writes: count.exactOptional() }),
  record: recordSchema,
});

/** The dotted names of all fields in a type, those of a phase behind the phase's name. */
type Fields<T> = T extends readonly (infer Item)[]
  ? Fields<Item>
  : T extends object
    ? {
        [Key in keyof T & string]: `${NameOf<T>}${Key}` | `${NameOf<T>}${Key}.${Fields<NonNullable<T[Key]>>}`;
      }[keyof T & string]
    : never;

type NameOf<T> = T extends { readonly name: infer Name extends string } ? `${Name}:` : "";

/** An optional field that the schema lacks would get lost without a word: with one, this is no record any more. */
type Complete<T> = [Exclude<Fields<AssignmentRecord>, Fields<T>>] extends [never] ? AssignmentRecord : never;

/** A record as JSON; the task id, which may exceed a JSON number, as text. */
export function encodeRecord(record: AssignmentRecord, writer: Writer): Uint8Array {
  return Buffer.from(JSON.stringify({ writer, record: plain(record) }));
}

/** Reads a value back; `reason` names fields, never their contents. */
export function decodeRecord(bytes: Uint8Array): Decoded {
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return { ok: false, reason: "it is not JSON" };
  }
  const parsed = value.safeParse(json);
  if (parsed.success) {
    const record: Complete<z.output<typeof recordSchema>> = parsed.data.record;
    return { ok: true, record, writer: parsed.data.writer };
  }
  const issues = parsed.error.issues.map(({ path, message }) => [path.join("."), message].join(": "));
  return { ok: false, reason: issues.join("; ") };
}

/** Whether two records say the same in every field. */
export function sameRecord(a: AssignmentRecord, b: AssignmentRecord): boolean {
  return JSON.stringify(ordered(plain(a))) === JSON.stringify(ordered(plain(b)));
}

function plain(record: AssignmentRecord): unknown {
  return { ...record, assignment: { ...record.assignment, taskId: String(record.assignment.taskId) } };
}

function ordered(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(ordered);
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(
    Object.entries(json)
      .filter(([, field]) => field !== undefined)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, field]) => [key, ordered(field)]),
  );
}

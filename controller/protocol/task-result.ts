import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { TaskResult } from "../assignment/record.ts";

const names: ReadonlyMap<Result, TaskResult> = new Map([
  [Result.SUCCESS, "success"],
  [Result.FAILURE, "failure"],
  [Result.CANCELLED, "cancelled"],
  [Result.SKIPPED, "skipped"],
]);

/** A result on the wire as our word; undefined while there is none (or one that we do not know). */
export function taskResultOf(result: Result | undefined): TaskResult | undefined {
  return result === undefined ? undefined : names.get(result);
}

/** Our word for a result as it goes over the wire. */
export function wireResult(result: TaskResult | undefined): Result {
  for (const [wire, name] of names) if (name === result) return wire;
  return Result.UNSPECIFIED;
}

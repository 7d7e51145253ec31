import { create } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { StepStateSchema, type StepState } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { StepRecord } from "../assignment/record.ts";
import { taskResultOf, wireResult } from "./task-result.ts";

/** Steps as they are kept in a record. */
export function stepRecords(steps: readonly StepState[]): StepRecord[] {
  return steps.map((step) => {
    const result = taskResultOf(step.result);
    return {
      id: Number(step.id),
      logIndex: Number(step.logIndex),
      logLength: Number(step.logLength),
      ...(result === undefined ? {} : { result }),
      ...(step.startedAt === undefined ? {} : { startedAt: timeText(step.startedAt) }),
      ...(step.stoppedAt === undefined ? {} : { stoppedAt: timeText(step.stoppedAt) }),
    };
  });
}

/** Steps of a record as they go over the wire. */
export function wireSteps(steps: readonly StepRecord[]): StepState[] {
  return steps.map((step) =>
    create(StepStateSchema, {
      id: BigInt(step.id),
      result: wireResult(step.result),
      logIndex: BigInt(step.logIndex),
      logLength: BigInt(step.logLength),
      ...(step.startedAt === undefined ? {} : { startedAt: timestampFromDate(new Date(step.startedAt)) }),
      ...(step.stoppedAt === undefined ? {} : { stoppedAt: timestampFromDate(new Date(step.stoppedAt)) }),
    }),
  );
}

function timeText(time: Timestamp): string {
  return timestampDate(time).toISOString();
}

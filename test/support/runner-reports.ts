import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { StateReport } from "../../controller/bootstrap/state-spool.ts";
import {
  type TaskStateSchema,
  type UpdateLogRequest,
  UpdateLogRequestSchema,
  UpdateTaskRequestSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";

/** What gitea-runner reports about task 42: running, no step begun. */
export function aReport(
  state: Omit<MessageInitShape<typeof TaskStateSchema>, "$typeName"> = {},
  outputs: Record<string, string> = {},
): StateReport {
  const request = create(UpdateTaskRequestSchema, { state: { id: 42n, ...state }, outputs });
  if (request.state === undefined) throw new Error("a report has a state");
  return Object.assign(request, { state: request.state });
}

/** Rows of task 42's log from `index` on. */
export function someRows(index: number, rows: readonly string[], noMore = false): UpdateLogRequest {
  return create(UpdateLogRequestSchema, {
    taskId: 42n,
    index: BigInt(index),
    rows: rows.map((content) => ({ content })),
    noMore,
  });
}

import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { TaskSchema, type Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { gunzip, gzip } from "../platform/gzip.ts";

/** Far above what Gitea sends, far below what would hurt the controller. */
const maxTaskBytes = 64 * 1024 * 1024;

/** A task as it is held in memory and, encrypted, in the queue; fields that we do not know are kept. */
export function compressTask(task: Task): Promise<Uint8Array> {
  return gzip(toBinary(TaskSchema, task));
}

/** Rejects if the bytes are no compressed task, or one that is larger than any that Gitea sends. */
export async function decompressTask(compressed: Uint8Array): Promise<Task> {
  return fromBinary(TaskSchema, await gunzip(compressed, maxTaskBytes));
}

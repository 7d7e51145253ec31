import type { Attempt } from "../../controller/identity/capability.ts";
import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import type { Assignment } from "../../controller/assignment/assignment.ts";
import type { UpdateLogRequest, UpdateTaskRequest } from "../../proto/gen/runner/v1/runner_pb.ts";

/**
 * What reaches a peer, told at that moment and before it takes effect: whatever had to be written down first has to
 * be there by then.
 */
export type Observed =
  /** Gitea hands a task out; whether its answer arrives is another question. */
  | { readonly kind: "fetched"; readonly taskId: bigint }
  | { readonly kind: "declared" }
  /** A controller's own report, or one that it relays. `late`: it has given it up meanwhile. */
  | { readonly kind: "update-task"; readonly request: UpdateTaskRequest; readonly late: boolean }
  | { readonly kind: "update-log"; readonly request: UpdateLogRequest }
  /** Gitea ends a task by itself. */
  | { readonly kind: "swept"; readonly taskId: bigint }
  | { readonly kind: "create"; readonly assignment: Assignment; readonly attempt: Attempt }
  | { readonly kind: "made"; readonly executor: string }
  /** A controller wants an executor to be ended, or removed. */
  | { readonly kind: "remove"; readonly executor: string; readonly how: "kill" | "delete" }
  /** The cluster knows that an executor of this assignment does not start. */
  | { readonly kind: "start-failed"; readonly assignmentId: string; readonly reason: FailureReason }
  | { readonly kind: "message-stored"; readonly assignmentId: string }
  /** Acknowledged, removed by its sequence, or terminated. */
  | {
      readonly kind: "message-goes";
      readonly assignmentId: string;
      readonly how: "ack" | "remove" | "term";
    }
  | { readonly kind: "record-written"; readonly key: string }
  | { readonly kind: "record-goes"; readonly key: string };

export type Observe = (event: Observed) => void;

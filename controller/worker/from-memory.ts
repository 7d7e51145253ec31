import type { AssignmentRecord } from "../assignment/record.ts";
import type { Delivery } from "./delivery.ts";

export type HeldAssignment = { readonly record: AssignmentRecord; readonly compressedTask?: Uint8Array };

/**
 * A delivery of a message that the queue cannot deliver now, made of what the controller holds in memory anyway;
 * undefined if that is not all of it. It is acknowledged by removing the message from the stream.
 */
export function deliveryFromMemory(
  { record, compressedTask }: HeldAssignment,
  queue: {
    remove(sequence: number, id: string, signal: AbortSignal): Promise<"removed" | "gone" | "other">;
  },
): Delivery | undefined {
  const { assignment, fetchedAt, sequence } = record;
  if (compressedTask === undefined || sequence === 0) return undefined;
  return {
    sequence,
    deliveryCount: 1,
    content: { kind: "assignment", assignment, fetchedAt, compressedTask },
    inProgress: () => undefined,
    retryLater: () => undefined,
    reject: () => undefined,
    acknowledge: async (signal) => (await queue.remove(sequence, assignment.id, signal)) !== "other",
  };
}

import type { Assignment } from "../assignment/assignment.ts";

export type DeliveryContent =
  | {
      readonly kind: "assignment";
      readonly assignment: Assignment;
      readonly fetchedAt: number;
      readonly compressedTask: Uint8Array;
    }
  /** `assignmentId` is what it claims to be, without proof. */
  | { readonly kind: "invalid"; readonly reason: string; readonly assignmentId?: string }
  | { readonly kind: "unknown-key"; readonly keyId: string; readonly assignmentId: string };

/** A message that nobody will ever be able to read, and the assignment that it claims to be. */
export type UnreadableMessage = { readonly assignmentId: string; readonly reason: string };

/** One message of the queue in our hands, until one of the last three is called. */
export type Delivery = {
  /** Where the message is in the stream. */
  readonly sequence: number;
  /** From 1; the queue gives a message up that was delivered 1000 times. */
  readonly deliveryCount: number;
  readonly content: DeliveryContent;
  /** Not forgotten: the queue's wait for an answer begins anew. */
  inProgress(): void;
  /** Hands the message back; it comes again after `ms`. */
  retryLater(ms: number): void;
  /** Never again. */
  reject(reason: string): void;
  /** Done with; resolves to whether the queue has confirmed it. */
  acknowledge(signal: AbortSignal): Promise<boolean>;
};

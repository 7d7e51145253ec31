import type { Delivery } from "./delivery.ts";

export type Renewable = {
  /** Answers the newest delivery of the message. */
  readonly delivery: Delivery;
  /** Takes a later delivery of the same message in place of the one before; false if it is another message. */
  renew(next: Delivery): boolean;
};

/**
 * A delivery that may come again while it is worked on, when the queue took ours for lost: from then on only an
 * answer to the newest one counts. `handedBack` hears of each `retryLater`.
 */
export function renewable(first: Delivery, handedBack: (ms: number) => void): Renewable {
  let newest = first;
  return {
    delivery: {
      sequence: first.sequence,
      content: first.content,
      get deliveryCount() {
        return newest.deliveryCount;
      },
      inProgress: () => {
        newest.inProgress();
      },
      retryLater: (ms) => {
        handedBack(ms);
        newest.retryLater(ms);
      },
      reject: (reason) => {
        newest.reject(reason);
      },
      acknowledge: (signal) => newest.acknowledge(signal),
    },
    renew: (next) => {
      if (next.sequence !== first.sequence) return false;
      newest = next;
      return true;
    },
  };
}

import type { Clock } from "../platform/clock.ts";
import { createLogLimit } from "../platform/log-limit.ts";
import type { Logger } from "../platform/logger.ts";
import type { RefusedCall } from "./runner-service.ts";

export type RefusedConnection = {
  readonly kind: string;
  readonly reason: string;
  readonly remoteAddress: string | undefined;
  readonly spiffeId?: string;
};

export type RefusalLogOptions = {
  readonly log: Logger;
  readonly clock: Pick<Clock, "now">;
  /** Called for each one, told or not. */
  readonly count: (kind: string) => void;
};

const limits = { everyMs: 60_000, maxKeys: 1_000 };

/**
 * Tells of refused connections and calls: the peer itself learns little, TLS 1.3 least of all. For each kind of
 * refusal and each peer there is a line a minute, which says how many were left out.
 */
export function createRefusalLog({ log, clock, count }: RefusalLogOptions) {
  const limit = createLogLimit(limits, clock);
  const tell = (message: string, kind: string, who: string | undefined, fields: Record<string, unknown>) => {
    count(kind);
    const due = limit.due(`${kind} ${who ?? ""}`);
    if (due === undefined) return;
    const line = { ...fields, ...(due.leftOut > 0 ? { leftOut: due.leftOut } : {}) };
    // Load balancers and monitors look whether the port is open.
    if (kind === "probe") log.debug(line, message);
    else log.warn(line, message);
  };
  return {
    connection: (refused: RefusedConnection) => {
      tell("connection refused", refused.kind, refused.spiffeId ?? refused.remoteAddress, refused);
    },
    call: (refused: RefusedCall) => {
      tell("caller refused", refused.kind, refused.spiffeId, refused);
    },
  };
}

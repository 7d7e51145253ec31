import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { IntruderKind } from "./intruder.ts";
import type { MomentName } from "./moments.ts";
import type { Peer, Weather } from "./sim-network.ts";
import type { SimJob } from "./sim-runner.ts";

/** Milliseconds after the start, or after a point in a job's life. */
export type When = number | { readonly after: MomentName; readonly job: number; readonly ms: number };

/** Something that a person or the world does. */
export type Incident = { readonly at: When } & Happening;

export type Happening =
  | { readonly do: "push"; readonly job: number; readonly backend: BackendKind; readonly work: SimJob }
  | { readonly do: "cancel"; readonly job: number }
  | Leading
  | Outage
  | Loss
  | Misbehaviour
  | OfAnExecutor
  /** The leader's machine sets its clock forward or back. Sleeps are not changed by that. */
  | { readonly do: "clock-step"; readonly ms: number };

type Leading =
  /** SIGKILL of the leader; a new one starts when the lease is over, and so much later. */
  | { readonly do: "crash"; readonly restartMs: number }
  /** SIGTERM of the leader; a new one starts when it has stopped leading. */
  | { readonly do: "upgrade" }
  /** The leader is stopped; another one takes over; the first wakes up and goes on for a moment. */
  | { readonly do: "pause"; readonly ms: number; readonly wakesForMs: number }
  /** The lease cannot be renewed for so long, and nobody else takes it. */
  | { readonly do: "lose-lease"; readonly ms: number }
  /** The leader is replaced by one that lacks its key and has another one, and that one by one that has both. */
  | { readonly do: "wrong-keys"; readonly ms: number };

type Outage =
  | { readonly do: "down"; readonly peer: Peer; readonly how: "silent" | "refuses"; readonly ms: number }
  | { readonly do: "weather"; readonly peer: Peer; readonly weather: Weather; readonly ms: number }
  /** Gitea cannot store closed logs. */
  | { readonly do: "log-store"; readonly ms: number };

type Loss =
  | { readonly do: "lose-stream" }
  /** Its newest messages. */
  | { readonly do: "lose-tail"; readonly count: number }
  /** It is as it was so long ago. */
  | { readonly do: "restore-stream"; readonly ageMs: number }
  /** Somebody makes it anew after a while. */
  | { readonly do: "lose-bucket"; readonly anewMs: number };

type Misbehaviour = { readonly backend: BackendKind; readonly ms: number } & (
  | { readonly do: "stale-lists"; readonly staleMs: number }
  | { readonly do: "late-creates"; readonly chance: number; readonly lateMs: number }
  | { readonly do: "linger"; readonly lingerMs: number }
  | { readonly do: "bad-starts"; readonly chance: number }
  | {
      readonly do: "refuse-creates";
      readonly kind: "retryable" | "terminal";
      readonly reason: FailureReason;
    }
);

/** The `nth` in the order in which they began, counted again from the first behind the last. */
type OfAnExecutor = { readonly nth: number } & (
  | { readonly do: "end-executor"; readonly cause: FailureReason }
  /** Gone without a trace. */
  | { readonly do: "vanish-executor" }
  /** Gone for its cluster, on a node that nobody reaches any more; but the facade hears of it. */
  | { readonly do: "ghost-executor" }
  | { readonly do: "stop-executor"; readonly ms: number }
  /** Its environment is given to it once more: the program runs twice. */
  | { readonly do: "start-again" }
  /** Somebody calls the facade with a part of what its executor has to show. */
  | { readonly do: "intrude"; readonly as: IntruderKind }
);

/** A run of the simulation, told beforehand: it can be made smaller and run again. */
export type Plan = {
  readonly seed: number;
  readonly capacity: Readonly<Record<BackendKind, number>>;
  readonly incidents: readonly Incident[];
};

import type { Times } from "./assignment/times.ts";
import type { Backend } from "./backends/backend.ts";
import type { EventLog } from "./events/event-log.ts";
import type { FacadeHandlerOptions } from "./facade/handler.ts";
import type { RunnerClient } from "./gitea/runner-client.ts";
import type { TroubleBoard } from "./health/troubles.ts";
import type { KeyRing } from "./identity/key-ring.ts";
import type { CompareStreamOptions } from "./lifecycle/compare-stream.ts";
import type { RecoverOptions } from "./lifecycle/recover.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import type { RecordStore } from "./record/record-store.ts";
import type { ReportStore } from "./record/report-store.ts";
import type { TakeTaskOptions } from "./scheduler/take-task.ts";
import type { WorkerQueue } from "./worker/worker.ts";

/** One backend with what the core needs to know of it. */
export type CoreBackend = {
  readonly backend: Backend;
  readonly capacity: number;
  /** How many of its tasks may wait for a slot before no more are fetched. */
  readonly backlog: number;
  /** How long an executor of it may live. */
  readonly timeoutMs: number;
  /** Looks after its executors until the signal is aborted; they go on without it. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /**
   * Milliseconds since what it watches was known to be current; undefined: never yet. Absent for a backend that looks
   * anew each time.
   */
  readonly viewAgeMs?: () => number | undefined;
  /** Closes its connections, once nothing is asked of it any more. Absent for a backend that has none of its own. */
  readonly close?: () => void;
};

/** All that the core has of the world. */
export type CorePorts = {
  readonly gitea: Pick<RunnerClient, "declare" | "fetchTask" | "updateTask" | "updateLog">;
  readonly queue: WorkerQueue &
    Pick<RecoverOptions["queue"], "scan"> &
    Omit<CompareStreamOptions["queue"], "publish"> & {
      publish: TakeTaskOptions["publish"] & CompareStreamOptions["queue"]["publish"];
    };
  readonly records: Pick<RecordStore, "list" | "create" | "update" | "remove">;
  readonly reports: ReportStore;
  readonly events: Pick<EventLog, "publish">;
  readonly backends: readonly CoreBackend[];
  /** What a task says of itself. */
  readonly read: TakeTaskOptions["read"];
  readonly compress: TakeTaskOptions["compress"];
  readonly decompress: FacadeHandlerOptions["readTask"];
  /** Unpredictable, a new one for each attempt: 32 hexadecimal digits. */
  readonly newNonce: () => string;
  /** Called for each refused connection and call. */
  readonly countRefusal: (kind: string) => void;
  /** Whether executors can reach the facade at all: while they cannot, nobody's silence counts. They can, unless given. */
  readonly canHear?: () => boolean;
  /** Throws if this process leads no more; called right before whatever only a leader may do. It leads, unless given. */
  readonly mustLead?: () => void;
  /** Throws if another controller may lead; called right before what is relayed to Gitea. None may, unless given. */
  readonly mayServe?: () => void;
  /** Shown by health and metrics. */
  readonly troubles: TroubleBoard;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

export type CoreSettings = {
  /** Marks all executors as ours. */
  readonly owner: string;
  readonly keyRing: KeyRing;
  /** What executors are told of the facade. */
  readonly facade: { readonly url: string; readonly spiffeId: string };
  readonly vmLabel: string;
  readonly times: Times;
};

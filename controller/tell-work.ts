import type { BackendKind } from "./assignment/backend-kind.ts";
import type { Failure } from "./assignment/failure.ts";
import { type AssignmentRecord, currentAttempt } from "./assignment/record.ts";
import type { RunnerEvent } from "./events/event.ts";
import type { ExecutorDeed } from "./lifecycle/perform.ts";
import type { WorkerEvent } from "./worker/backend-worker.ts";

export type TellWorkOptions = {
  readonly assignments: { get(id: string): { readonly record: AssignmentRecord } | undefined };
  readonly publish: (event: RunnerEvent) => void;
};

/** What is done for assignments and on backends, besides the changes of records, as history tells it. */
export type TellWork = {
  /**
   * A job that waits is looked at every few seconds for an hour: history has each event once, until the record is in
   * another phase or has another attempt. The log has them all.
   */
  worker(backend: BackendKind, event: WorkerEvent): void;
  executor(backend: BackendKind, deed: ExecutorDeed): void;
  circuit(backend: BackendKind, failure: Failure | undefined): void;
  /** The assignment is over and forgotten. */
  forget(id: string): void;
};

export function createTellWork({ assignments, publish }: TellWorkOptions): TellWork {
  const told = new Map<string, { readonly stage: string; readonly events: Set<string> }>();

  /** True for the first time in this stage of the assignment's life. */
  const isNew = (event: string, { assignment: { id }, phase }: AssignmentRecord, attempt = 0): boolean => {
    const stage = `${phase.name} ${attempt}`;
    const known = told.get(id);
    const { events } = known?.stage === stage ? known : { events: new Set<string>() };
    told.set(id, { stage, events });
    if (events.has(event)) return false;
    events.add(event);
    return true;
  };

  return {
    worker: (backend, { event, assignment, executor }) => {
      const record = assignments.get(assignment)?.record;
      const attempt = record === undefined ? undefined : currentAttempt(record)?.number;
      if (record !== undefined && !isNew(event, record, attempt)) return;
      publish({
        assignment,
        backend,
        event,
        ...(attempt === undefined ? {} : { attempt }),
        ...(executor === undefined ? {} : { executor }),
      });
    },
    executor: (backend, { event, assignment, executor, why }) => {
      publish({ assignment, backend, event, executor, ...(why === undefined ? {} : { evidence: why }) });
    },
    circuit: (backend, failure) => {
      const why = failure === undefined ? {} : { reason: failure.reason, evidence: failure.evidence };
      publish({ backend, event: failure === undefined ? "circuit_closed" : "circuit_opened", ...why });
    },
    forget: (id) => void told.delete(id),
  };
}

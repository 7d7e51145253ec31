import { type AssignmentRecord, currentAttempt } from "../assignment/record.ts";
import type { Backend, Executor, InvalidExecutor } from "../backends/backend.ts";
import type { Assignments } from "./assignments.ts";
import type { ExecutorMemory } from "./executor-memory.ts";
import type { Registration } from "./registration.ts";
import { currentName, type Seen } from "./seen.ts";

/** One answer of a backend, or none, and the phases of all records when it was asked for. */
export type Listed = {
  readonly askedAt: number;
  readonly phases: ReadonlyMap<string, string>;
  /** Absent if the backend did not answer. */
  readonly answer?: {
    readonly executors: ReadonlyMap<string, readonly Executor[]>;
    readonly invalid: readonly InvalidExecutor[];
  };
};

export type LookOptions = {
  readonly backend: Pick<Backend, "kind" | "endsUnseen">;
  readonly assignments: Pick<Assignments, "all" | "get">;
  readonly hearing: { heardAt(id: string): number };
  readonly registration: Pick<Registration, "lostSince">;
  readonly slots: { has(id: string): boolean };
  readonly memory: ExecutorMemory;
};

/** Brings together what is known of each assignment of one backend. */
export type Look = {
  /** The phases of all records, and of which attempt. */
  phases(): ReadonlyMap<string, string>;
  /** What is seen of one assignment now, with an answer that may be older. */
  at(id: string, listed: Listed): Seen;
  /** The assignments whose executor may have claimed and is missing in the answer, with the executor's name. */
  lacking(listed: Listed): ReadonlyMap<string, string>;
};

export function createLook(options: LookOptions): Look {
  const { backend, assignments, hearing, registration, slots, memory } = options;
  const records = () =>
    assignments
      .all()
      .map(({ record }) => record)
      .filter(({ assignment }) => assignment.backend === backend.kind);

  return {
    phases: () => new Map(records().map((record) => [record.assignment.id, phaseOf(record)])),
    at: (id, listed) => {
      const record = assignments.get(id)?.record;
      const name = record === undefined ? undefined : currentName(record);
      const absentSince = name === undefined ? undefined : memory.absentSince(id, name);
      const unregisteredSince = registration.lostSince();
      const executors = listed.answer?.executors.get(id)?.map((executor) => asRemembered(executor, memory));
      return {
        ...(record === undefined ? {} : { record }),
        ...(listed.answer === undefined
          ? {}
          : { there: { executors: executors ?? [], unreadable: unreadable(listed) } }),
        settled: record !== undefined && isSettled(record, listed),
        heardAt: hearing.heardAt(id),
        ...(backend.endsUnseen === undefined ? {} : { endsUnseen: true }),
        ...(unregisteredSince === undefined ? {} : { unregisteredSince }),
        ...(absentSince === undefined ? {} : { absentSince }),
        lingering: memory.lingering(),
        hasSlot: slots.has(id),
      };
    },
    lacking: (listed) => {
      const names = new Set([
        ...[...(listed.answer?.executors.values() ?? [])].flat().map(({ name }) => name),
        ...unreadable(listed),
      ]);
      const lacking = new Map<string, string>();
      for (const record of records()) {
        const name = currentName(record);
        const mayHaveClaimed = record.phase.name === "claimed" || record.phase.name === "adopted";
        if (mayHaveClaimed && name !== undefined && isSettled(record, listed) && !names.has(name))
          lacking.set(record.assignment.id, name);
      }
      return lacking;
    },
  };
}

/** It was in this phase already when the list was asked for. */
function isSettled(record: AssignmentRecord, { phases }: Listed): boolean {
  return phases.get(record.assignment.id) === phaseOf(record);
}

function unreadable({ answer }: Listed): readonly string[] {
  return answer?.invalid.map(({ name }) => name) ?? [];
}

function phaseOf(record: AssignmentRecord): string {
  const attempt = currentAttempt(record);
  return `${record.phase.name} ${attempt?.number} ${attempt?.nonce}`;
}

/** What we have deleted is over, though an old list still shows it: it is never to be taken for lost. */
function asRemembered(executor: Executor, memory: ExecutorMemory): Executor {
  return memory.isGone(executor.name)
    ? { ...executor, metadata: { ...executor.metadata, terminal: true } }
    : executor;
}

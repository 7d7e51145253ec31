import type { AssignmentEvent, EventOf, EventType } from "./event.ts";
import type { AssignmentRecord, PhaseName, PhaseOf } from "./record.ts";

/** What an event does in a phase: it moves the record on, or is ignored by a rule that says why. */
export type Cell<Name extends PhaseName, Type extends EventType> =
  | { readonly ignored: string }
  | {
      /** The phases that it may lead to. */
      readonly to: readonly PhaseName[];
      /** The moved record, or the rule by which this very event is ignored. */
      readonly move: (at: {
        readonly record: AssignmentRecord;
        readonly phase: PhaseOf<Name>;
        readonly event: EventOf<Type>;
        readonly now: number;
      }) => AssignmentRecord | string;
    };

/** Every event has its cell: a phase that forgets one does not compile. */
export type Row<Name extends PhaseName> = { readonly [Type in EventType]: Cell<Name, Type> };

export type Machine = { readonly [Name in PhaseName]: Row<Name> };

export type Transition =
  | { readonly moved: true; readonly record: AssignmentRecord }
  | { readonly moved: false; readonly because: string };

/** Looks an event up in the machine. Total: whatever happens in whatever phase has an answer. */
export function transition(
  machine: Machine,
  record: AssignmentRecord,
  event: AssignmentEvent,
  now: number,
): Transition {
  const cell = cellOf(machine, record.phase.name, event.type);
  if ("ignored" in cell) return { moved: false, because: cell.ignored };
  // The cell was found by this phase and this event.
  const at = { record, phase: record.phase, event, now } as Parameters<typeof cell.move>[0];
  const moved = cell.move(at);
  return typeof moved === "string" ? { moved: false, because: moved } : { moved: true, record: moved };
}

/** One cell, its types widened to any phase and event. */
export function cellOf(machine: Machine, phase: PhaseName, type: EventType): Cell<PhaseName, EventType> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- which cell it is is known to the table only
  return machine[phase][type] as Cell<PhaseName, EventType>;
}

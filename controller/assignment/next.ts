import { adoptedRow, claimedRow } from "./after-claim.ts";
import { endingRow, finishedRow } from "./after-end.ts";
import { queuedRow, startingRow } from "./before-claim.ts";
import type { AssignmentEvent } from "./event.ts";
import { transition, type Machine, type Transition } from "./machine.ts";
import type { AssignmentRecord } from "./record.ts";

/** The life of an assignment. The table in this folder's README is made from it. */
export const assignmentMachine: Machine = {
  queued: queuedRow,
  starting: startingRow,
  adopted: adoptedRow,
  claimed: claimedRow,
  ending: endingRow,
  finished: finishedRow,
};

/**
 * What becomes of a record when something happens; `now` in milliseconds since the epoch. Pure: storing it is the
 * caller's, before the effect that it stands for. What a phase owes the world (a beat, an executor, a report) is not
 * handed out here but read from the stored record, again and again, so that a crash between the two loses nothing.
 * A change that is tried again after a conflict decides again from the record that it finds.
 */
export function next(record: AssignmentRecord, event: AssignmentEvent, now: number): Transition {
  return transition(assignmentMachine, record, event, now);
}

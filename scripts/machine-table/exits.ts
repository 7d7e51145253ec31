import { assignmentId } from "../../controller/assignment/assignment.ts";
import { overdue } from "../../controller/assignment/overdue.ts";
import { type AssignmentRecord, type Phase, queuedRecord } from "../../controller/assignment/record.ts";
import type { Times } from "../../controller/assignment/times.ts";
import { markdownTable } from "./table.ts";

const minute = 60_000;
const attempt = { number: 1, nonce: "0".repeat(32) };
const claim = { instance: "", logRows: 0, at: 0 };

type Case = { readonly what: string; readonly phase: Phase; readonly isHeard: boolean };

/** What may keep an assignment where it is, all of it begun at 0. */
const cases: readonly Case[] = [
  { what: "queued", phase: { name: "queued", notBefore: 0 }, isHeard: false },
  {
    what: "starting, its deadline far away",
    phase: { name: "starting", attempt, since: 0, deadlineAt: Infinity },
    isHeard: false,
  },
  {
    what: "starting, its deadline after 60 min",
    phase: { name: "starting", attempt, since: 0, deadlineAt: 60 * minute },
    isHeard: false,
  },
  { what: "adopted, silent", phase: { name: "adopted", attempt, since: 0 }, isHeard: false },
  { what: "adopted, heard and never claims", phase: { name: "adopted", attempt, since: 0 }, isHeard: true },
  {
    what: "claimed, silent",
    phase: { name: "claimed", attempt, claim, deadlineAt: Infinity },
    isHeard: false,
  },
  {
    what: "claimed, heard, its deadline after 60 min",
    phase: { name: "claimed", attempt, claim, deadlineAt: 60 * minute },
    isHeard: true,
  },
  {
    what: "claimed, heard, its deadline lost with its record",
    phase: { name: "claimed", attempt, claim },
    isHeard: true,
  },
  {
    what: "claimed, heard, cancelled at once",
    phase: { name: "claimed", attempt, claim, deadlineAt: Infinity, cancelledAt: 0 },
    isHeard: true,
  },
  {
    what: "ending, and Gitea does not hear of it",
    phase: {
      name: "ending",
      attempt,
      claim,
      end: { by: "controller", result: "cancelled", executorGone: true },
      since: 0,
    },
    isHeard: false,
  },
];

/** Each phase's exit by time, found by asking the code. */
export function exitsTable(times: Times): string {
  const rows = cases.map((one) => {
    const { at, event } = firstExit(one, times);
    const why = "failure" in event ? `\`${event.type}\` (${event.failure.reason})` : `\`${event.type}\``;
    return [one.what, `${Math.round((at / minute) * 10) / 10} min`, why];
  });
  return markdownTable(["an assignment that stays", "for", "gets"], rows);
}

function firstExit({ phase, isHeard, what }: Case, times: Times) {
  const record = { ...emptyRecord, phase };
  const eventAt = (now: number) => overdue(record, isHeard ? now : 0, now, times);
  let [none, some] = [0, 1_000 * 60 * minute];
  if (eventAt(none) !== undefined) none = -1;
  while (some - none > 1) {
    const middle = Math.floor((none + some) / 2);
    if (eventAt(middle) === undefined) none = middle;
    else some = middle;
  }
  const event = eventAt(some);
  if (event === undefined) throw new Error(`${what} has no exit by time`);
  return { at: some, event };
}

const emptyRecord: AssignmentRecord = queuedRecord(
  {
    id: assignmentId(1n),
    taskId: 1n,
    backend: "pod",
    repository: "",
    jobKey: "",
    spiffeId: "",
    trust: "branch",
  },
  { fetchedAt: 0, sequence: 1 },
);

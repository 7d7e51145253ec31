import type { Failure } from "../assignment/failure.ts";
import { tidyEvidence } from "../assignment/evidence.ts";
import { failureKind, type FailureReason } from "../assignment/failure-reasons.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";

/** What a job's log has been told of its waiting. A restart forgets it, and may tell one thing twice. */
export type Told = {
  readonly rows: number;
  readonly at: number;
  /** The last reason. */
  readonly reason?: FailureReason;
  /** The last attempt whose loss was told. */
  readonly lost: number;
};

export type WaitingRow = { readonly text: string; readonly told: Told };

export const nothingTold: Told = { rows: 0, at: -Infinity, lost: 0 };

/** Further rows would tell nobody anything. */
export const maxWaitingRows = 20;

/**
 * The next row for the log of a job that waits, or undefined if none is due: each loss of an attempt, and each
 * change of the reason why it waits, one at a time and not too often.
 */
export function waitingRow(
  { attempts, phase }: AssignmentRecord,
  waiting: Failure | undefined,
  told: Told,
  now: number,
  times: Pick<Times, "retryMs">,
): WaitingRow | undefined {
  if (told.rows >= maxWaitingRows || now - told.at < 2 * times.retryMs) return undefined;
  const next = { ...told, rows: told.rows + 1, at: now };
  const { begun, lost } = attempts;
  const lostNumber = phase.name === "starting" ? begun - 1 : begun;
  if (lost !== undefined && lostNumber > told.lost)
    return {
      text: row(
        `Executor ${lostNumber} of this job is lost: ${failureKind(lost.reason).sentence}. The next one is tried.`,
        lost,
      ),
      told: { ...next, lost: lostNumber },
    };
  if (waiting === undefined || waiting.reason === told.reason) return undefined;
  return {
    text: row(`This job waits: ${waitingFor(waiting.reason)}. It is tried again by itself.`, waiting),
    told: { ...next, reason: waiting.reason },
  };
}

/** The evidence stands at the end, so that nothing in it can pass for our own words. */
function row(text: string, { reason, evidence }: Failure): string {
  const seen = tidyEvidence(evidence);
  return `${text} Reason: ${reason}.${seen === "" ? "" : ` Seen: ${seen}`}`;
}

/** What the list of failures says of the end of a wait, said of the wait. */
const waits: Partial<Readonly<Record<FailureReason, string>>> = {
  quota: "the quota leaves no room for its executor",
  unschedulable: "no node has room for its executor or fits it",
  no_vm: "the pool of VMs has no place for it",
  backend_down: "the backend that runs executors does not answer as it should",
  image_pull_slow: "the image of its executor is still being pulled",
  registry_down: "the registry that holds the image of its executor does not answer",
  identity: "its executor has no identity yet",
  too_slow: "its executor cannot start yet",
};

function waitingFor(reason: FailureReason): string {
  return waits[reason] ?? `its executor cannot start (${failureKind(reason).sentence})`;
}

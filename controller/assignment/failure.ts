import { tidyEvidence } from "./evidence.ts";
import { failureKind, type FailureReason } from "./failure-reasons.ts";
import type { Fixer, FailureKind } from "./failure-kind.ts";

/** Why we end a job that did not end by itself. */
export type Failure = {
  readonly reason: FailureReason;
  /** What was seen, in the words of whoever saw it; may be empty. Not to be trusted by a reader. */
  readonly evidence: string;
  /** With `attempts_exhausted` only: what the last attempt failed with. The evidence is that attempt's. */
  readonly last?: FailureReason;
};

/** What the rows of a failure tell besides the failure itself, as far as it is known. */
export type FailureContext = {
  /** The name of the executor, for the one who wants to look at it or its events. */
  readonly executor?: string;
  /** For whoever can fix it: shows or reproduces what was seen. */
  readonly command?: string;
  /** The values of `runs-on` that may be written here, told where the labels are at fault. */
  readonly offered?: string;
};

/** The longest row that `failureRows` makes, in UTF-16 code units. */
export const maxFailureRow = 1_000;

/** A failure with tidy evidence (evidence.ts). Every failure is made here, so that records and logs hold no other. */
export function failureFor(reason: FailureReason, evidence: string): Failure {
  return { reason, evidence: tidyEvidence(evidence) };
}

/** The failure of a job whose last possible attempt has failed. */
export function attemptsExhausted(last: Failure): Failure {
  return {
    reason: "attempts_exhausted",
    evidence: tidyEvidence(last.evidence),
    last: last.last ?? last.reason,
  };
}

/** Who can fix it: with attempts exhausted, whoever can fix the last of them. */
export function fixerOf(failure: Failure): Fixer {
  return causeOf(failure).fixer;
}

/** For our own log and for events: `<reason>: <evidence>` on one bounded line. */
export function describeFailure({ reason, evidence, last }: Failure): string {
  const tidy = tidyEvidence(evidence);
  return `${reason}${last === undefined ? "" : ` (${last})`}${tidy === "" ? "" : `: ${tidy}`}`;
}

/**
 * The rows that end the job's log in Gitea: what happened and what was seen of it, who can fix it, what to do, and a
 * command that shows it where there is one. The
 * evidence stands at the end of its row, so that nothing in it can pass for our own words, and no row begins with
 * it, so that Gitea takes none for a command to its log view.
 */
export function failureRows(failure: Failure, context: FailureContext = {}): readonly string[] {
  const { reason, last } = failure;
  const { advice } = causeOf(failure);
  const seen = tidyEvidence(failure.evidence);
  const detail = last === undefined ? "" : ` (the last attempt: ${last})`;
  const executor = context.executor === undefined ? "" : ` Executor: ${tidyEvidence(context.executor)}.`;
  const offered =
    reason === "labels" && context.offered !== undefined
      ? ` Offered: runs-on: ${tidyEvidence(context.offered)}.`
      : "";
  const reproduce = context.command === undefined ? [] : [`To reproduce it: ${context.command}`];
  return [
    `${opening(failureKind(reason))}: ${sentenceOf(failure)}.${seen === "" ? "" : ` Seen: ${seen}`}`,
    `Who can fix it: ${people[fixerOf(failure)]}. Reason: ${reason}${detail}.${executor}`,
    `What to do: ${advice}.${offered}`,
    ...reproduce,
  ];
}

/** The entry that says what to do about it. */
function causeOf({ reason, last }: Failure): FailureKind {
  return failureKind(reason === "attempts_exhausted" ? (last ?? reason) : reason);
}

function sentenceOf({ reason, last }: Failure): string {
  const { sentence } = failureKind(reason);
  return reason !== "attempts_exhausted" || last === undefined || last === reason
    ? sentence
    : `${sentence}. The last one: ${failureKind(last).sentence}`;
}

const people: Readonly<Record<Fixer, string>> = {
  "workflow author": "the author of the workflow",
  image: "whoever builds the executor image",
  cluster: "whoever runs the cluster",
  Gitea: "whoever runs Gitea",
  us: "whoever runs gitea-dynamic-runner",
};

function opening({ stage, result }: FailureKind): string {
  if (result === "cancelled") return "This job was cancelled";
  switch (stage) {
    case "never started":
      return "This job never started";
    case "died":
      return "This job was cut short";
    case "refused":
      return "This job cannot be run here";
    default:
      return stage satisfies never;
  }
}

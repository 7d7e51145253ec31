import type { SandboxState } from "../../opensandbox/opensandbox-api.ts";
import type { ExecutorState } from "../backend.ts";
import type { VmTimes } from "./vm-options.ts";

/** What one answer of the server says of a sandbox. */
export type Answer =
  | {
      readonly kind: "there";
      readonly state: SandboxState;
      readonly words: string;
      readonly isAllocated: boolean;
    }
  /** It was asked for by its id, and the server knows none. That a list lacks it is no answer. */
  | { readonly kind: "missing" };

/** What is known of a VM, from all answers so far. */
export type Life = {
  readonly state: ExecutorState;
  /** It was running once. */
  readonly hasRun: boolean;
  /** There is no such sandbox any more. */
  readonly isGone: boolean;
  /** That it is gone only its absence tells, which an answer that shows it takes back. */
  readonly mayReturn?: true;
  readonly isStopping: boolean;
  /** The last answers say that it is lost, and not yet often enough. */
  readonly doubt?: { readonly missing: boolean; readonly answers: number; readonly since: number };
};

/** When and of what an answer speaks. */
export type Around = {
  /** By the steady clock. */
  readonly now: number;
  /** How long ago it was asked for. */
  readonly ageMs: number;
  readonly isPastDeadline: boolean;
  /** What we have written on it before we ended it. */
  readonly killedFor?: string;
};

/** So many answers in a row prove that a VM is lost, if they take longer than the server's view may be behind. */
const proof = 3;

/**
 * What is known after one more answer. The server waits with its answer to a create until the VM is ready: one that is
 * pending later than that, or again, has lost it. Running tells nothing of what runs inside.
 */
export function afterAnswer(
  before: Life | undefined,
  answer: Answer,
  around: Around,
  times: Pick<VmTimes, "createWindowMs" | "lagMs">,
): Life {
  if (before?.isGone === true)
    return before.mayReturn === true && answer.kind === "there"
      ? afterAnswer(undefined, answer, around, times)
      : before;
  const { hasRun = false, state = { phase: "starting" } as const } = before ?? {};
  if (answer.kind === "missing") return missed({ hasRun, state, before, around, times });
  const there = { hasRun, isGone: false, isStopping: false };
  switch (answer.state) {
    case "running":
    case "allocated":
      return { ...there, hasRun: true, state: { phase: "running" } };
    case "failed":
      return { ...there, state: { phase: "ended", reason: answer.words } };
    case "stopping": {
      // One that nobody here has seen before may run until it is gone.
      const known = before ?? { hasRun: true, state: { phase: "running" } as const };
      return { ...there, isStopping: true, hasRun: known.hasRun, state: known.state };
    }
    case "other":
      return { ...there, state };
    case "pending": {
      if (state.phase === "ended") return { ...there, state };
      if (!hasRun && around.ageMs < times.createWindowMs) return { ...there, state: { phase: "starting" } };
      const doubt = doubted(before, false, around.now);
      return isProof(doubt, around.now, times)
        ? { ...there, state: lost(hasRun || answer.isAllocated, answer.words) }
        : { ...there, state, doubt };
    }
    default:
      return answer.state satisfies never;
  }
}

function missed({
  hasRun,
  state,
  before,
  around,
  times,
}: Pick<Life, "hasRun" | "state"> & {
  readonly before: Life | undefined;
  readonly around: Around;
  readonly times: Pick<VmTimes, "lagMs">;
}): Life {
  const isStopping = before?.isStopping ?? false;
  const doubt = doubted(before, true, around.now);
  return isProof(doubt, around.now, times)
    ? {
        hasRun,
        isStopping,
        isGone: true,
        mayReturn: true,
        state: state.phase === "ended" ? state : gone({ hasRun, isStopping }, around),
      }
    : { hasRun, isStopping, isGone: false, state, doubt };
}

function doubted(before: Life | undefined, missing: boolean, now: number): NonNullable<Life["doubt"]> {
  const last = before?.doubt;
  return last?.missing === missing
    ? { missing, answers: last.answers + 1, since: last.since }
    : { missing, answers: 1, since: now };
}

function isProof(
  { answers, since }: NonNullable<Life["doubt"]>,
  now: number,
  { lagMs }: Pick<VmTimes, "lagMs">,
): boolean {
  return answers >= proof && now - since > lagMs;
}

/** Whether its program has ended or its node was lost the server does not tell. */
function lost(hadVm: boolean, words: string): ExecutorState {
  return hadVm
    ? { phase: "ended", reason: `its VM has ended or was lost (${words})` }
    : { phase: "ended", cause: "no_vm", reason: `it has got no VM (${words})` };
}

function gone(
  { hasRun, isStopping }: Pick<Life, "hasRun" | "isStopping">,
  { isPastDeadline, killedFor }: Around,
): ExecutorState {
  if (killedFor !== undefined) return { phase: "ended", reason: killedFor };
  if (isPastDeadline) return { phase: "ended", cause: "deadline", reason: "its time was over" };
  if (!hasRun) return { phase: "ended", cause: "no_vm", reason: "it was taken back before it had a VM" };
  const reason = "its sandbox is gone, and we have not deleted it";
  // Whether another server has answered, or an old view of it, nobody can tell, unless its deletion was seen.
  return { phase: "ended", cause: isStopping ? "killed" : "vanished", reason };
}

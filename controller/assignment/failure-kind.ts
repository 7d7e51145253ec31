/** Who can see to it that the next job does not fail in the same way. */
export type Fixer = "workflow author" | "image" | "cluster" | "Gitea" | "us";

/**
 * How far the job had got: its executor had not taken it yet, had taken it, or there was never going to be one
 * because of what the job asks for.
 */
export type FailureStage = "never started" | "died" | "refused";

/**
 * What a failure means for the job. `permanent`: it fails at once, another try would end in the same way.
 * `attempt`: one attempt is burnt and the next executor is tried. `wait`: no attempt is burnt, because room or an
 * answer may come without anybody's doing; it is tried until the longer of the two start deadlines has passed.
 */
export type Retry = "permanent" | "attempt" | "wait";

/** What a table of failures says of one reason. */
export type FailureEntry = {
  readonly fixer: Fixer;
  /** A clause that goes on after "This job never started: " or its like, for the person who pushed. */
  readonly sentence: string;
  /** A clause that goes on after "What to do: ", for the one who can fix it. */
  readonly advice: string;
};

/** Everything that is known of a reason. */
export type FailureKind = FailureEntry & {
  readonly stage: FailureStage;
  readonly retry: Retry;
  /** What Gitea is told: a job that was cancelled ends as cancelled, whatever went wrong on the way. */
  readonly result: "failure" | "cancelled";
};

import type { BackendKind } from "../assignment/backend-kind.ts";
import type { AssignmentRecord, TaskResult } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { createObeyGitea, type ObeyGiteaOptions } from "./obey-gitea.ts";

export type KeepAliveOptions = ObeyGiteaOptions & {
  readonly kind: BackendKind;
  readonly assignments: {
    all(): readonly { readonly record: AssignmentRecord }[];
    get(id: string): { readonly record: AssignmentRecord } | undefined;
    within<T>(id: string, work: () => Promise<T>): Promise<T>;
  };
  /** Tells Gitea that the task is held; resolves to what Gitea says of it. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<"running" | TaskResult | "gone">;
  readonly report: (assignment: string | undefined, error: string) => void;
  readonly times: Pick<Times, "beatMs" | "callMs">;
};

/**
 * Speaks for the tasks of one backend that nobody has claimed: Gitea gives up a task of which it hears nothing for
 * some minutes, and only its answer tells of a cancel. After the claim only the bootstrap speaks: a beat without
 * the steps would set those that are over back to running.
 */
export function createKeepAlive(options: KeepAliveOptions) {
  const { kind, assignments, beat, report, times, clock } = options;
  const { obey } = createObeyGitea(options);

  const speakFor = (id: string, signal: AbortSignal) =>
    assignments.within(id, async () => {
      const record = assignments.get(id)?.record;
      if (record === undefined || !isUnclaimed(record)) return;
      const said = await beat(record.assignment.taskId, signal);
      if (said !== "running") await obey(record, said, signal);
    });

  const round = (signal: AbortSignal) =>
    Promise.all(
      assignments
        .all()
        .filter(({ record }) => record.assignment.backend === kind && isUnclaimed(record))
        .map(async ({ record: { assignment } }) => {
          try {
            await withDeadline(clock, times.callMs, (deadline) => speakFor(assignment.id, deadline), signal);
          } catch (error) {
            if (!signal.aborted) report(assignment.id, describeError(error));
          }
        }),
    );

  return {
    /** Ends with the signal. */
    run: async (signal: AbortSignal): Promise<void> => {
      while (!signal.aborted) {
        await round(signal);
        await clock.sleep(times.beatMs, signal).catch(() => undefined);
      }
    },
  };
}

function isUnclaimed({ phase }: AssignmentRecord): boolean {
  return phase.name === "queued" || phase.name === "starting";
}

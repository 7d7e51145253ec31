import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { LogRowSchema } from "../proto/gen/runner/v1/runner_pb.ts";
import type { CorePorts } from "./core-ports.ts";
import { beat } from "./gitea/beat.ts";
import { createReportEnd, storedRows } from "./gitea/report-end.ts";
import { sendReport } from "./gitea/send-report.ts";
import { GiteaError } from "./protocol/errors.ts";

export type GiteaCalls = ReturnType<typeof giteaCalls>;

/** Calls about a task that Gitea has handed out. */
export type TaskCalls = Pick<CorePorts["gitea"], "updateTask" | "updateLog">;

/** What the parts ask of Gitea, in their words. */
export function giteaCalls({ gitea, clock }: Pick<CorePorts, "clock"> & { readonly gitea: TaskCalls }) {
  const reportEnd = createReportEnd({ gitea, clock });
  return {
    beat: (taskId: bigint, signal: AbortSignal) => beat(gitea, taskId, signal),
    updateTask: ((request, signal) =>
      gitea.updateTask(request, signal)) satisfies CorePorts["gitea"]["updateTask"],
    updateLog: ((request, signal) =>
      gitea.updateLog(request, signal)) satisfies CorePorts["gitea"]["updateLog"],
    storedRows: async (taskId: bigint, signal: AbortSignal) =>
      Number(await storedRows(gitea, taskId, signal)),
    appendRow: (taskId: bigint, index: number, content: string, signal: AbortSignal) => {
      const row = create(LogRowSchema, { time: timestampFromMs(clock.now()), content });
      return gitea.updateLog({ taskId, index: BigInt(index), rows: [row] }, signal);
    },
    sendReport: (report: Parameters<typeof sendReport>[1], signal: AbortSignal) =>
      sendReport(gitea, report, signal),
    reportEnd,
  };
}

/** The same calls; `onAnswer` hears what each of them was refused with, undefined if it was not. */
export function tellingAnswers(
  gitea: CorePorts["gitea"],
  onAnswer: (fault: string | undefined) => void,
): CorePorts["gitea"] {
  const heard = async <T>(call: Promise<T>): Promise<T> => {
    try {
      const answer = await call;
      onAnswer(undefined);
      return answer;
    } catch (error) {
      if (error instanceof GiteaError) onAnswer(error.fault);
      throw error;
    }
  };
  return {
    declare: (...call) => heard(gitea.declare(...call)),
    fetchTask: (...call) => heard(gitea.fetchTask(...call)),
    updateTask: (...call) => heard(gitea.updateTask(...call)),
    updateLog: (...call) => heard(gitea.updateLog(...call)),
  };
}

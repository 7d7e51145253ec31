import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type LogRow,
  LogRowSchema,
  Result,
  type UpdateLogRequest,
  UpdateLogRequestSchema,
  type UpdateLogResponse,
  UpdateLogResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { createLane } from "./lane.ts";
import type { Relay, RelayCore } from "./relay.ts";
import { acknowledged } from "./shift.ts";
import { splitRows } from "./split-rows.ts";

/** Well below the facade's limit of 64 MiB, and little enough for one call's deadline. */
const maxBytes = 8 * 1024 * 1024;

const stoppedRow = "The executor was told to end while this job ran.";

/** Further than any log goes: asks for the number of stored rows without storing one. */
const beyondAnyLog = 1_000_000_000n;

/**
 * Carries log rows in order, one call in flight. Sending rows again is safe: those that are stored already are
 * passed over (Gitea's UpdateLog).
 */
export function createLogRelay(core: RelayCore): Pick<Relay, "updateLog" | "storedRows"> {
  const lane = createLane();

  const sendRun = async (
    request: UpdateLogRequest,
    index: bigint,
    rows: readonly LogRow[],
    last: boolean,
  ) => {
    const part = create(UpdateLogRequestSchema, { taskId: core.taskId, index: index + core.logRows });
    part.rows = [...rows];
    part.noMore = request.noMore && last;
    if (request.$unknown !== undefined) part.$unknown = request.$unknown;
    const answer = await core.call((client, options) => client.updateLog(part, options));
    answer.ackIndex = acknowledged(answer.ackIndex, core.logRows, index + BigInt(rows.length));
    if (answer.ackIndex > core.progress.rows) core.progress = { ...core.progress, rows: answer.ackIndex };
    return answer;
  };

  const updateLog = async (request: UpdateLogRequest): Promise<UpdateLogResponse> => {
    const end = request.index + BigInt(request.rows.length);
    const taken = create(UpdateLogResponseSchema, { ackIndex: end });
    if (core.refused.aborted) return taken;
    const runs = splitRows([...request.rows, ...lastWords(request)], maxBytes);
    let index = request.index;
    let stored: UpdateLogResponse | undefined;
    for (const [position, rows] of runs.entries()) {
      try {
        stored = await sendRun(request, index, rows, position === runs.length - 1);
      } catch (error) {
        if (core.refused.aborted) return taken;
        if (stored === undefined) throw error;
        // Saying what is stored lets the runner repeat the rest only.
        return stored;
      }
      index += BigInt(rows.length);
      if (stored.ackIndex !== index) return stored;
    }
    // Not more than the runner has sent: the last row may be ours.
    return stored === undefined || stored.ackIndex > end ? taken : stored;
  };

  /** With the runner's last rows, because Gitea takes none after them. */
  const lastWords = ({ noMore }: UpdateLogRequest): readonly LogRow[] =>
    noMore && core.stop.aborted && core.progress.ended === Result.UNSPECIFIED
      ? [create(LogRowSchema, { time: timestampFromMs(core.clock.now()), content: stoppedRow })]
      : [];

  const storedRows = async (): Promise<bigint> => {
    const question = create(UpdateLogRequestSchema, { taskId: core.taskId });
    return (await sendRun(question, beyondAnyLog, [], false)).ackIndex;
  };

  return {
    updateLog: (request) => lane(() => updateLog(request)),
    storedRows: () => lane(storedRows),
  };
}

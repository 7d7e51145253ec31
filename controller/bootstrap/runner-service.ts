import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  DeclareResponseSchema,
  FetchTaskResponseSchema,
  type RunnerService,
  type Task,
  type UpdateTaskRequest,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Relay } from "./relay.ts";
import type { StateReport } from "./state-spool.ts";
import { capabilitiesHeader, type ServerCapabilities } from "./wait-for-facade.ts";

export type RunnerServiceOptions = {
  readonly task: Task;
  readonly relay: Pick<Relay, "updateTask" | "updateLog">;
  /** The runner's name, as in its `.runner` file. */
  readonly name: string;
  readonly capabilities: ServerCapabilities;
};

/** What gitea-runner finds on loopback in Gitea's place: one task, and somewhere to report to. */
export function createRunnerService(options: RunnerServiceOptions): ServiceImpl<typeof RunnerService> {
  const { task, relay, name } = options;
  let reported = false;
  return {
    register: () => {
      throw new ConnectError("this runner is registered already", Code.PermissionDenied);
    },

    declare: ({ version, labels }, context) => {
      if (options.capabilities !== undefined)
        context.responseHeader.set(capabilitiesHeader, options.capabilities);
      return create(DeclareResponseSchema, { runner: { name, version, labels } });
    },

    // The answer can be lost, the runner waits only some seconds for it: until a report shows that it has the
    // task it gets it again. A version of at least 1 is what tells it that there is nothing more.
    fetchTask: ({ tasksVersion }) =>
      create(FetchTaskResponseSchema, {
        ...(reported ? {} : { task }),
        tasksVersion: tasksVersion > 1n ? tasksVersion : 1n,
      }),

    updateTask: async (request) => {
      if (!isReportOf(request, task.id))
        throw new ConnectError("the state is missing or another task's", Code.InvalidArgument);
      reported = true;
      return await relay.updateTask(request);
    },

    updateLog: async (request) => {
      if (request.taskId !== task.id) throw new ConnectError("another task's log", Code.InvalidArgument);
      if (request.index < 0n) throw new ConnectError("the log index is negative", Code.InvalidArgument);
      reported = true;
      return await relay.updateLog(request);
    },
  };
}

function isReportOf(request: UpdateTaskRequest, taskId: bigint): request is StateReport {
  return request.state?.id === taskId;
}

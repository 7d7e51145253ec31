import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  FetchTaskResponseSchema,
  Result,
  UpdateLogRequestSchema,
  UpdateLogResponseSchema,
  UpdateTaskRequestSchema,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { RunnerClient } from "../../controller/gitea/runner-client.ts";
import { fromGitea } from "../../controller/protocol/errors.ts";
import { createGiteaModel, type FakeRunner, type GiteaModel } from "../fakes/fake-gitea-model.ts";
import type { Observe } from "./observed.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { callTimeouts, simLimits } from "./sim-times.ts";

export type SimGitea = {
  readonly model: GiteaModel;
  readonly runner: FakeRunner;
  /** Gitea as one process sees it. */
  clientFor(process: SimProcess): RunnerClient;
  /** How many calls came, by method. */
  readonly calls: ReadonlyMap<string, number>;
};

export type SimGiteaOptions = {
  readonly clock: SimClock;
  readonly network: SimNetwork;
  readonly observe: Observe;
};

/** Gitea's model (which the contract suite keeps equal to the real one) behind a network that may lose things. */
export function createSimGitea({ clock, network, observe }: SimGiteaOptions): SimGitea {
  const model = createGiteaModel(() => clock.now());
  const runner = model.addRunner();
  const calls = new Map<string, number>();
  const isOpen = (taskId: bigint) => model.tasks.get(taskId)?.result === Result.UNSPECIFIED;
  const sweep = () => {
    const open = [...model.tasks.keys()].filter(isOpen);
    model.sweep(simLimits);
    for (const taskId of open) if (!isOpen(taskId)) observe({ kind: "swept", taskId });
    clock.after(simLimits.sweepMs, sweep);
  };
  clock.after(simLimits.sweepMs, sweep);

  const fetchTask = (version: bigint) => {
    const answer = model.fetchTask(runner, version, false, never());
    if ("task" in answer && answer.task !== undefined) observe({ kind: "fetched", taskId: answer.task.id });
    return create(FetchTaskResponseSchema, answer);
  };
  const updateTask = (init: Parameters<RunnerClient["updateTask"]>[0], late: boolean) => {
    const request = create(UpdateTaskRequestSchema, init);
    observe({ kind: "update-task", request, late });
    return create(UpdateTaskResponseSchema, model.updateTask(runner, request));
  };
  const updateLog = (init: Parameters<RunnerClient["updateLog"]>[0]) => {
    const request = create(UpdateLogRequestSchema, init);
    observe({ kind: "update-log", request });
    return create(UpdateLogResponseSchema, model.updateLog(runner, request));
  };
  const declare = (labels: readonly string[]) => {
    observe({ kind: "declared" });
    runner.labels = [...labels];
    runner.cancelling = true;
    return undefined;
  };

  const clientFor = (process: SimProcess): RunnerClient => {
    const call = async <T>(
      what: string,
      effect: (late: boolean) => T,
      signal: AbortSignal,
      { timeoutMs, once }: { readonly timeoutMs: number; readonly once: boolean } = usual,
    ): Promise<T> => {
      try {
        const lost = (why: string) => new ConnectError(why, Code.Unavailable);
        const counted = (late: boolean) => {
          calls.set(what, (calls.get(what) ?? 0) + 1);
          return effect(late);
        };
        const asked = { from: process, to: "gitea", what, timeoutMs, lost, once, effect: counted } as const;
        return await network.call(asked, signal);
      } catch (error) {
        throw fromGitea(what, isOwn(error, signal) ? error : asUnknown(error));
      }
    };
    return {
      declare: (labels, signal) => call("Declare", () => declare(labels), signal),
      fetchTask: (version) => call("FetchTask", () => fetchTask(version), never(), fetching),
      updateTask: (request, signal) => call("UpdateTask", (late) => updateTask(request, late), signal),
      updateLog: (request, signal) => call("UpdateLog", () => updateLog(request), signal),
      close: () => undefined,
    };
  };
  return { model, runner, clientFor, calls };
}

const usual = { timeoutMs: callTimeouts.giteaMs, once: false } as const;
/** Nothing on the way would repeat it. */
const fetching = { timeoutMs: callTimeouts.fetchMs, once: true } as const;

/** One of its own each time: what waits for ever would be kept by a shared one. */
function never(): AbortSignal {
  return new AbortController().signal;
}

/** The network's error or the caller's own abort, not Gitea's word. */
function isOwn(error: unknown, signal: AbortSignal): boolean {
  return error instanceof ConnectError || (signal.aborted && error === signal.reason);
}

/** As Gitea's server says every error. */
function asUnknown(error: unknown): ConnectError {
  return new ConnectError(error instanceof Error ? error.message : String(error), Code.Unknown);
}

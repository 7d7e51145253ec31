import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  FetchTaskResponseSchema,
  UpdateLogRequestSchema,
  UpdateLogResponseSchema,
  UpdateTaskRequestSchema,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { RunnerClient } from "../../controller/gitea/runner-client.ts";
import { fromGitea } from "../../controller/protocol/errors.ts";
import { createGiteaModel, type FakeRunner, type GiteaModel } from "../fakes/fake-gitea-model.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { scale } from "./scale.ts";

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
  /** Gitea's limits: a task of which it hears nothing, and one that takes too long. */
  readonly zombieMs: number;
  readonly endlessMs: number;
  /** How often it looks. */
  readonly sweepMs: number;
};

const callMs = 10_000 / scale;
const fetchMs = 75_000 / scale;

/** Gitea's model (which the contract suite keeps equal to the real one) behind a network that may lose things. */
export function createSimGitea(options: SimGiteaOptions): SimGitea {
  const { clock, network, sweepMs } = options;
  const model = createGiteaModel(() => clock.now());
  const runner = model.addRunner();
  const calls = new Map<string, number>();
  const sweep = () => {
    model.sweep(options);
    clock.after(sweepMs, sweep);
  };
  clock.after(sweepMs, sweep);

  const clientFor = (process: SimProcess): RunnerClient => {
    const call = async <T>(
      what: string,
      timeoutMs: number,
      effect: () => T,
      signal: AbortSignal,
      once = false,
    ): Promise<T> => {
      try {
        const lost = (why: string) => new ConnectError(why, Code.Unavailable);
        return await network.call(
          {
            from: process,
            to: "gitea",
            what,
            timeoutMs,
            lost,
            once,
            effect: () => {
              calls.set(what, (calls.get(what) ?? 0) + 1);
              return effect();
            },
          },
          signal,
        );
      } catch (error) {
        if (signal.aborted && error === signal.reason) throw fromGitea(what, error);
        throw fromGitea(what, error instanceof ConnectError ? error : asUnknown(error));
      }
    };
    const never = new AbortController().signal;
    return {
      declare: (labels, signal) =>
        call(
          "Declare",
          callMs,
          () => {
            runner.labels = [...labels];
            runner.cancelling = true;
            return undefined;
          },
          signal,
        ),
      fetchTask: (version) =>
        call(
          "FetchTask",
          fetchMs,
          () => create(FetchTaskResponseSchema, model.fetchTask(runner, version, false, never)),
          never,
          true,
        ),
      updateTask: (request, signal) =>
        call(
          "UpdateTask",
          callMs,
          () =>
            create(
              UpdateTaskResponseSchema,
              model.updateTask(runner, create(UpdateTaskRequestSchema, request)),
            ),
          signal,
        ),
      updateLog: (request, signal) =>
        call(
          "UpdateLog",
          callMs,
          () =>
            create(UpdateLogResponseSchema, model.updateLog(runner, create(UpdateLogRequestSchema, request))),
          signal,
        ),
      close: () => undefined,
    };
  };
  return { model, runner, clientFor, calls };
}

/** As Gitea's server says every error. */
function asUnknown(error: unknown): ConnectError {
  return new ConnectError(error instanceof Error ? error.message : String(error), Code.Unknown);
}

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import {
  type RunnerService,
  FetchTaskRequestSchema,
  FetchTaskResponseSchema,
  UpdateLogRequestSchema,
  UpdateLogResponseSchema,
  UpdateTaskRequestSchema,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { callHeaders } from "../../controller/assignment/executor-call.ts";
import type { FacadeClient } from "../../controller/bootstrap/facade-client.ts";
import type { Prng } from "./prng.ts";
import type { SimNetwork } from "./sim-network.ts";
import type { SimProcess } from "./sim-process.ts";
import { scale } from "./scale.ts";

type Served = { readonly process: SimProcess; readonly service: ServiceImpl<typeof RunnerService> };

/** Who calls: the connection proves the SPIFFE ID, the call's headers say the rest. */
export type SimCaller = {
  readonly spiffeId: string;
  readonly assignmentId: string;
  readonly capability: string;
  readonly instance: string;
};

export type SimFacade = {
  /** Listens for a controller; returns how to stop that. */
  listen(process: SimProcess, service: ServiceImpl<typeof RunnerService>): () => void;
  clientFor(process: SimProcess, caller: SimCaller): FacadeClient;
};

/** Where the peer of a simulated call is found, as the TLS layer would tell it. */
export const simPeer = Symbol("peer");

const callMs = 10_000 / scale;

/** The facade's name has the addresses of all controllers that listen; a caller tries one after the other. */
export function createSimFacade({
  network,
  prng,
}: {
  readonly network: SimNetwork;
  readonly prng: Prng;
}): SimFacade {
  const served = new Set<Served>();

  const clientFor = (process: SimProcess, caller: SimCaller): FacadeClient => {
    const call = async <T>(
      what: string,
      signal: AbortSignal,
      method: (service: Served["service"], context: HandlerContext) => Promise<T>,
      onHeader?: (headers: Headers) => void,
    ): Promise<T> => {
      const context = contextOf(what, caller);
      const answer = await network.call(
        {
          from: process,
          to: "facade",
          what: `${what} of ${caller.assignmentId}`,
          timeoutMs: callMs,
          lost: (why) => new ConnectError(why, Code.Unavailable),
          effect: () => {
            const there = [...served].filter(({ process: controller }) => controller.state !== "dead");
            if (there.length === 0) throw new ConnectError("connection refused", Code.Unavailable);
            const { process: controller, service } = prng.pick(there);
            return new Promise<T>((resolve, reject) => {
              controller.deliver(() => {
                method(service, context).then(resolve, reject);
              });
            });
          },
        },
        signal,
      );
      onHeader?.(context.responseHeader);
      return answer;
    };
    const client: Pick<FacadeClient, "fetchTask" | "updateTask" | "updateLog"> = {
      fetchTask: (request, options) =>
        call("FetchTask", signalOf(options), async (service, context) =>
          create(
            FetchTaskResponseSchema,
            await service.fetchTask(create(FetchTaskRequestSchema, request), context),
          ),
        ),
      updateTask: (request, options) =>
        call(
          "UpdateTask",
          signalOf(options),
          async (service, context) =>
            create(
              UpdateTaskResponseSchema,
              await service.updateTask(create(UpdateTaskRequestSchema, copied(request)), context),
            ),
          options?.onHeader,
        ),
      updateLog: (request, options) =>
        call("UpdateLog", signalOf(options), async (service, context) =>
          create(
            UpdateLogResponseSchema,
            await service.updateLog(create(UpdateLogRequestSchema, copied(request)), context),
          ),
        ),
    };
    return client as FacadeClient;
  };

  return {
    listen: (process, service) => {
      const mine = { process, service };
      served.add(mine);
      return () => void served.delete(mine);
    },
    clientFor,
  };
}

/** What travels over a network is never the same object at both ends. */
function copied<T>(request: T): T {
  return structuredClone(request);
}

function signalOf(options: { readonly signal?: AbortSignal } | undefined): AbortSignal {
  return options?.signal ?? new AbortController().signal;
}

function contextOf(method: string, caller: SimCaller): HandlerContext {
  const requestHeader = new Headers({
    [callHeaders.assignmentId]: caller.assignmentId,
    [callHeaders.capability]: caller.capability,
    [callHeaders.instance]: caller.instance,
  });
  const context = {
    requestHeader,
    responseHeader: new Headers(),
    method: { name: method },
    [simPeer]: { ok: true, id: caller.spiffeId },
  };
  return context as unknown as HandlerContext;
}

import { clone, create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import {
  type RunnerService,
  DeclareRequestSchema,
  DeclareResponseSchema,
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
import { callTimeouts } from "./sim-times.ts";

type Service = ServiceImpl<typeof RunnerService>;
type Served = { readonly process: SimProcess; readonly service: Service };

/** Who calls: the connection proves the SPIFFE ID, the call's headers say the rest. */
export type SimCaller = {
  readonly spiffeId: string;
  readonly assignmentId: string;
  readonly capability: string;
  readonly instance: string;
};

/** What of the bootstrap's client is used. */
export type SimFacadeClient = Pick<FacadeClient, "declare" | "fetchTask" | "updateTask" | "updateLog">;

export type SimFacade = {
  /** Listens for a controller; returns how to stop that. */
  listen(process: SimProcess, service: Service): () => void;
  /** Whether anybody listens who runs. */
  isServed(): boolean;
  clientFor(process: SimProcess, caller: SimCaller): SimFacadeClient;
};

/** Where the peer of a simulated call is found, as the TLS layer would tell it. */
export const simPeer = Symbol("peer");

type CallOptions = { readonly signal?: AbortSignal; readonly onHeader?: (headers: Headers) => void };

/** The facade's name has the addresses of all controllers that listen; a caller gets one of them. */
export function createSimFacade({
  network,
  prng,
}: {
  readonly network: SimNetwork;
  readonly prng: Prng;
}): SimFacade {
  const served = new Set<Served>();
  const alive = () => [...served].filter(({ process }) => process.state !== "dead");

  const clientFor = (process: SimProcess, caller: SimCaller): SimFacadeClient => {
    const call = async <T>(
      what: string,
      { signal = new AbortController().signal, onHeader }: CallOptions,
      method: (service: Service, context: HandlerContext) => Promise<T>,
    ): Promise<T> => {
      const context = contextOf(what, caller);
      const serve = () => {
        const there = alive();
        if (there.length === 0) throw new ConnectError("connection refused", Code.Unavailable);
        const { process: controller, service } = prng.pick(there);
        return new Promise<T>((resolve, reject) => {
          controller.deliver(() => {
            method(service, context).then(resolve, reject);
          });
        });
      };
      const asked = {
        from: process,
        to: "facade",
        what: `${what} of ${caller.assignmentId}`,
        timeoutMs: callTimeouts.facadeMs,
        lost: (why: string) => new ConnectError(why, Code.Unavailable),
        effect: serve,
      } as const;
      const answer = await network.call(asked, signal);
      onHeader?.(context.responseHeader);
      return answer;
    };
    // What travels over a network is never the same object at both ends.
    return {
      declare: (request, options = {}) =>
        call("Declare", options, async (service, context) =>
          create(
            DeclareResponseSchema,
            await service.declare(create(DeclareRequestSchema, request), context),
          ),
        ),
      fetchTask: (request, options = {}) =>
        call("FetchTask", options, async (service, context) =>
          create(
            FetchTaskResponseSchema,
            await service.fetchTask(create(FetchTaskRequestSchema, request), context),
          ),
        ),
      updateTask: (request, options = {}) =>
        call("UpdateTask", options, async (service, context) => {
          const copy = clone(UpdateTaskRequestSchema, create(UpdateTaskRequestSchema, request));
          return create(UpdateTaskResponseSchema, await service.updateTask(copy, context));
        }),
      updateLog: (request, options = {}) =>
        call("UpdateLog", options, async (service, context) => {
          const copy = clone(UpdateLogRequestSchema, create(UpdateLogRequestSchema, request));
          return create(UpdateLogResponseSchema, await service.updateLog(copy, context));
        }),
    };
  };

  return {
    listen: (process, service) => {
      const mine = { process, service };
      served.add(mine);
      return () => void served.delete(mine);
    },
    isServed: () => alive().some(({ process }) => process.state === "running"),
    clientFor,
  };
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

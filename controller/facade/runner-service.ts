import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import {
  DeclareResponseSchema,
  FetchTaskResponseSchema,
  type RunnerService,
  type Task,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { callHeaders } from "../assignment/executor-call.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import type { KeyRing } from "../identity/key-ring.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import { admit, callerOf, isVerified, superseded, type Caller, type Peer } from "./admit.ts";
import { stored } from "./answers.ts";
import { createUpdateLog, type UpdateLogOptions } from "./update-log.ts";
import { callRefusal, type CallRefusal, type Standing } from "./refusal.ts";
import { createUpdateTask, type UpdateTaskOptions } from "./update-task.ts";

type Live = { readonly record: AssignmentRecord; readonly compressedTask?: Uint8Array };

export type RefusedCall = {
  readonly kind: CallRefusal;
  readonly method: string;
  readonly reason: string;
  /** Undefined if the connection does not prove any. */
  readonly spiffeId: string | undefined;
  /** The live assignment that it names and has the SVID of; undefined if that is not so. */
  readonly assignment: string | undefined;
};

export type RunnerServiceOptions = UpdateTaskOptions & {
  readonly keyRing: KeyRing;
  readonly peerOf: (context: HandlerContext) => Peer | undefined;
  readonly assignments: {
    /** Only if both the id and the SPIFFE ID are the assignment's. */
    resolve(id: string, spiffeId: string): Live | undefined;
    within<T>(id: string, work: () => Promise<T>): Promise<T>;
  };
  readonly gitea: UpdateLogOptions;
  /**
   * Hears of every call of an admitted executor, and of one with its job's SVID whose capability no key verifies: it is
   * not silent, our keys may be the wrong ones.
   */
  readonly hearing: { heard(id: string): void };
  readonly readTask: (compressedTask: Uint8Array) => Promise<Task>;
  /** Called for each call that was refused, not for one that was only put off. */
  readonly onRefused: (call: RefusedCall) => void;
  /** Called just before the caller hears that its task is over, or that it will never be needed again. */
  readonly onOver: (context: HandlerContext) => void;
  /** Called with what a call does, which may outlast its caller; until it settles the call's body is in memory. */
  readonly onWork: (context: HandlerContext, work: Promise<unknown>) => void;
  readonly log: Logger;
};

/**
 * An admitted call is carried out to its end even if the executor hangs up: a result that Gitea has taken is
 * to be recorded. Longer than any single call to Gitea; whatever hangs for longer must not hold up the next one.
 */
const callDeadlineMs = 30_000;

/**
 * Gitea's RunnerService for executors: each sees its own task and nothing else. All tasks belong to one runner
 * in Gitea's eyes, so the checks here are the only wall between jobs.
 */
export function createRunnerService(options: RunnerServiceOptions): ServiceImpl<typeof RunnerService> {
  const { assignments, hearing, logLanes, clock, log } = options;
  const updateTask = createUpdateTask(options);
  const updateLog = createUpdateLog(options.gitea);
  const untilDeadline = <T>(call: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    stored(withDeadline(clock, callDeadlineMs, call, new AbortController().signal));

  const admitted = (context: HandlerContext): Live & { readonly caller: Caller } => {
    const caller = callerOf(options.keyRing, options.peerOf(context), context.requestHeader);
    const live = assignments.resolve(caller.assignmentId, caller.spiffeId);
    const record = admit(caller, live?.record);
    hearing.heard(caller.assignmentId);
    return { ...live, record, caller };
  };
  const refused = (context: HandlerContext, error: unknown, wanted?: CallRefusal) => {
    const peer = options.peerOf(context);
    const kind = wanted ?? callRefusal(error, standing(options.keyRing, peer, context.requestHeader));
    const method = context.method.name;
    const reason = describeError(error);
    if (kind === undefined) log.debug({ method, error: reason }, "call not served");
    else {
      const spiffeId = peer?.ok === true ? peer.id : undefined;
      const named = context.requestHeader.get(callHeaders.assignmentId) ?? "";
      const known = spiffeId !== undefined && assignments.resolve(named, spiffeId) !== undefined;
      options.onRefused({ kind, method, reason, spiffeId, assignment: known ? named : undefined });
      if (kind === "capability" && known) hearing.heard(named);
    }
    if (kind === "superseded") options.onOver(context);
  };
  const serve = async <T>(context: HandlerContext, work: () => Promise<T> | T): Promise<T> => {
    try {
      const working = (async () => work())();
      options.onWork(context, working);
      return await working;
    } catch (error) {
      refused(context, error);
      throw error;
    }
  };

  return {
    register: (_request, context) => {
      const error = new ConnectError("an executor is never registered", Code.PermissionDenied);
      refused(context, error, "register");
      throw error;
    },
    declare: ({ labels, version }, context) =>
      serve(context, () => {
        const { caller } = admitted(context);
        return create(DeclareResponseSchema, { runner: { name: caller.assignmentId, labels, version } });
      }),
    fetchTask: (_request, context) =>
      serve(context, async () => {
        const { caller, record, compressedTask } = admitted(context);
        // An adopted one may have claimed the task or not: if it asks, it has not got it.
        if (record.phase.name !== "starting" && record.phase.name !== "adopted")
          throw superseded(caller, "its task is claimed or over");
        if (compressedTask === undefined)
          throw new ConnectError("the task is not in hand yet", Code.Unavailable);
        return create(FetchTaskResponseSchema, {
          task: await options.readTask(compressedTask),
          tasksVersion: 1n,
        });
      }),
    updateTask: (request, context) =>
      serve(context, () =>
        assignments.within(admitted(context).caller.assignmentId, async () => {
          // Asked again: what stood before this call in the queue may have changed the record.
          const { caller, record } = admitted(context);
          const { answer, logRows, over } = await untilDeadline((deadline) =>
            updateTask(caller, record, request, deadline),
          );
          context.responseHeader.set(callHeaders.logRows, String(logRows));
          if (over) options.onOver(context);
          return answer;
        }),
      ),
    updateLog: (request, context) =>
      serve(context, () =>
        logLanes.run(admitted(context).caller.assignmentId, () =>
          untilDeadline((deadline) => {
            const { caller, record } = admitted(context);
            return updateLog(caller, record, request, deadline);
          }),
        ),
      ),
  };
}

function standing(keyRing: KeyRing, peer: Peer | undefined, headers: Headers): Standing {
  if (peer?.ok !== true) return "nobody";
  return isVerified(keyRing, peer, headers) ? "attempt" : "job";
}

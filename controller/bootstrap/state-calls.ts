import { create } from "@bufbuild/protobuf";
import {
  Result,
  type TaskState,
  type UpdateTaskRequest,
  UpdateTaskRequestSchema,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { closedState } from "./final-state.ts";
import { nextOutputs, withConfirmed } from "./outputs.ts";
import type { Final, StateSpool } from "./state-spool.ts";
import type { Times } from "./times.ts";

/** A call to the facade, its steps' rows still as gitea-runner counts them. */
export type StateCall = {
  readonly request: UpdateTaskRequest;
  readonly state: TaskState;
  /** Reports that it tells. */
  readonly reports: number;
};

export type StateTurn =
  | { readonly kind: "call"; readonly call: StateCall }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "over" };

/** Of outputs in one call, in bytes: well below the facade's limit of 64 MiB. */
const maxOutputBytes = 8 * 1024 * 1024;

/**
 * What the state lane does next: the latest state if it is new, or when the facade has heard nothing for a beat. The
 * result goes when the log is stored (`logDone`), but does not wait for it longer than `times.logs`; while it waits
 * there are only beats, because it tells all that a state would.
 */
export function nextTurn(
  spool: StateSpool,
  now: number,
  logDone: boolean,
  times: Pick<Times, "beatEvery" | "logs">,
): StateTurn {
  const { final, state, answeredAt } = spool;
  const beatAt = answeredAt + times.beatEvery;
  switch (final.kind) {
    case "delivered":
      return { kind: "over" };
    case "none":
    case "left":
      if (spool.told < spool.reports || now >= beatAt) return callWith(spool, state);
      return final.kind === "left" && logDone ? { kind: "over" } : { kind: "wait", ms: beatAt - now };
    case "reported":
    case "missing": {
      const dueAt = logDone ? now : final.at + times.logs;
      if (now >= dueAt) return resultCall(spool, final);
      if (now >= beatAt) return callWith(spool, state);
      return { kind: "wait", ms: Math.min(dueAt, beatAt) - now };
    }
    default:
      return final satisfies never;
  }
}

type OpenFinal = Extract<Final, { readonly kind: "reported" | "missing" }>;

/** Outputs that do not fit into the call with the result go before it: with the result Gitea looks at them. */
function resultCall(spool: StateSpool, final: OpenFinal): StateTurn {
  const isAll = nextOutputs(spool.outputs, maxOutputBytes, true).isAll;
  return callWith(spool, isAll ? finalState(spool, final) : spool.state);
}

function callWith(spool: StateSpool, state: TaskState): StateTurn {
  const withResult = state.result !== Result.UNSPECIFIED;
  const { outputs } = nextOutputs(spool.outputs, maxOutputBytes, withResult);
  const request = create(UpdateTaskRequestSchema, { outputs });
  if (spool.unknown !== undefined) request.$unknown = spool.unknown;
  return { kind: "call", call: { request, state, reports: spool.reports } };
}

/** Made of the steps if gitea-runner said nothing: a failure, unless Gitea has ended the job already. */
function finalState({ state, ended }: StateSpool, final: OpenFinal): TaskState {
  if (final.kind === "reported") return final.state;
  const result = ended === Result.UNSPECIFIED ? Result.FAILURE : ended;
  return closedState(state, final.steps, result, final.at);
}

/** Takes in the facade's answer to a call. */
export function withAnswer(
  spool: StateSpool,
  { request, state, reports }: StateCall,
  answer: UpdateTaskResponse,
  now: number,
): StateSpool {
  const said = answer.state?.result ?? Result.UNSPECIFIED;
  const result = said === Result.UNSPECIFIED ? state.result : said;
  return {
    ...spool,
    outputs: withConfirmed(spool.outputs, request.outputs, answer.sentOutputs),
    ended: said === Result.UNSPECIFIED ? spool.ended : said,
    told: reports,
    answeredAt: now,
    answerUnknown: answer.$unknown,
    final: state.result === Result.UNSPECIFIED ? spool.final : { kind: "delivered", result },
  };
}

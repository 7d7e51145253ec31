import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Facts } from "./facts.ts";
import type { Host, Hosts } from "./hosts.ts";
import type { SimClock } from "./sim-clock.ts";
import type { SimCaller, SimFacade, SimFacadeClient } from "./sim-facade.ts";
import { createSimProcess } from "./sim-process.ts";

export const intruderKinds = [
  "with the SVID of another job",
  "for another task",
  "as another instance",
] as const;
/** What an intruder has wrong; all else is an executor's own. */
export type IntruderKind = (typeof intruderKinds)[number];

export type IntruderOptions = {
  readonly clock: SimClock;
  readonly facade: SimFacade;
  readonly facts: Facts;
  readonly hosts: Pick<Hosts, "all">;
  readonly outrage: (what: string) => void;
};

type Call = { readonly caller: SimCaller; readonly taskId: bigint };

/** I12: makes each call that an executor makes; none of them may be answered. */
export function createIntruder({ clock, facade, facts, hosts, outrage }: IntruderOptions) {
  const callOf = ({ name, request, instance }: Host, as: IntruderKind): Call | undefined => {
    const { environment, metadata } = request;
    const job = facts.ofExecutor(name);
    const other = [...facts.jobs.values()].find((one) => one !== job && one.job.task !== undefined);
    const { taskId } = metadata.assignment;
    const caller = {
      spiffeId: environment.CI_SPIFFE_ID,
      assignmentId: environment.CI_ASSIGNMENT_ID,
      capability: environment.CI_RUNNER_CAPABILITY,
      instance,
    };
    switch (as) {
      case "with the SVID of another job": {
        const spiffeId = caller.spiffeId.replace(/job-\d+$/, `job-${other?.number ?? "none"}`);
        return { caller: { ...caller, spiffeId }, taskId };
      }
      case "for another task":
        return other?.job.task === undefined ? undefined : { caller, taskId: other.job.task.id };
      case "as another instance": {
        // Before the claim the first to ask is the right one, if its attempt is.
        const mayClaim = job?.claims.size === 0 && [...job.executors].at(-1) === name;
        return mayClaim ? undefined : { caller: { ...caller, instance: instance.toUpperCase() }, taskId };
      }
      default:
        return as satisfies never;
    }
  };

  const callsOf = (client: SimFacadeClient, taskId: bigint, as: IntruderKind) => ({
    // These two name no task: the executor's own are answered.
    ...(as === "for another task"
      ? {}
      : { Declare: () => client.declare({}), FetchTask: () => client.fetchTask({}) }),
    UpdateTask: () => client.updateTask({ state: { id: taskId, result: Result.SUCCESS } }),
    UpdateLog: () => client.updateLog({ taskId, index: 0n, rows: [{ content: "forged" }] }),
  });

  return (nth: number, as: IntruderKind): void => {
    const host = hosts.all[nth % Math.max(1, hosts.all.length)];
    const call = host === undefined ? undefined : callOf(host, as);
    if (host === undefined || call === undefined) return;
    const process = createSimProcess(`intruder at ${host.name}`, clock);
    const client = facade.clientFor(process, call.caller);
    for (const [name, run] of Object.entries(callsOf(client, call.taskId, as)))
      run().then(
        () => outrage(`I12: ${name} at ${host.name} ${as} is answered`),
        () => undefined,
      );
  };
}

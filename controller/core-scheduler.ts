import { failureRows } from "./assignment/failure.ts";
import { declaredLabels, offeredRunsOn } from "./assignment/requirements.ts";
import type { Lane } from "./backend-lane.ts";
import type { Counts } from "./core-figures.ts";
import type { GiteaCalls } from "./core-gitea.ts";
import type { CorePorts, CoreSettings } from "./core-ports.ts";
import type { Assignments } from "./lifecycle/assignments.ts";
import { createHeldUp } from "./scheduler/held-up.ts";
import { createScheduler, type Scheduler } from "./scheduler/scheduler.ts";
import { createTakeTask } from "./scheduler/take-task.ts";

export type CoreSchedulerOptions = {
  readonly settings: Pick<CoreSettings, "vmLabel">;
  readonly ports: CorePorts;
  readonly assignments: Assignments;
  readonly lanes: readonly Lane[];
  readonly gitea: GiteaCalls;
  readonly counts: Counts;
  readonly mustLead: () => void;
};

/** Puts the scheduler together, for the backends of all lanes. */
export function putSchedulerTogether({
  settings: { vmLabel },
  ports,
  assignments,
  lanes,
  gitea,
  counts,
  mustLead,
}: CoreSchedulerOptions): Scheduler {
  const { queue, backends, clock, random } = ports;
  const log = ports.log.child({ component: "scheduler" });
  const kinds = lanes.map(({ kind }) => kind);
  const heldUp = createHeldUp();
  const scheduler = createScheduler({
    gitea: ports.gitea,
    take: createTakeTask({
      read: ports.read,
      compress: ports.compress,
      publish: (task, signal) => queue.publish(task, signal),
      isKnown: (id) => assignments.get(id) !== undefined,
      offer: (task, signal) => assignments.offer({ ...task, isNew: true }, signal),
      fail: async (taskId, failure, signal) => {
        const offered = offeredRunsOn(kinds, vmLabel);
        const reason = failure === undefined ? [] : failureRows(failure, { offered });
        const result = failure === undefined ? "cancelled" : "failure";
        await gitea.reportEnd({ taskId, result, reason, steps: [] }, signal);
        if (failure !== undefined) counts.failed(failure);
      },
      beat: gitea.beat,
      heldUp,
      clock,
      random,
      log,
    }),
    heldUp,
    onFetchLost: counts.fetchLost,
    mustLead,
    labelsFor: (open) => declaredLabels(open, vmLabel),
    loads: () => lanes.map((lane, index) => ({ ...lane.load(), backlog: backends[index]?.backlog ?? 0 })),
    loadsChanged: (signal) => assignments.changed(signal),
    capacity: backends.reduce((sum, { capacity }) => sum + capacity, 0),
    clock,
    random,
    log,
  });
  for (const { slots } of lanes)
    slots.onChange(() => {
      scheduler.lookAgain();
    });
  return scheduler;
}

import type { AssignmentRecord } from "../../../controller/assignment/record.ts";
import type { CorePorts } from "../../../controller/core-ports.ts";
import type { Logger } from "../../../controller/platform/logger.ts";
import { eventPoints, type PortPoint, type Strike } from "./fail-point.ts";

/** The same ports, with a fail point before and after each call that has an effect. */
export function failingPorts(ports: CorePorts, strike: Strike): CorePorts {
  const around = async <T>(name: PortPoint, call: () => Promise<T>): Promise<T> => {
    strike(name, "before");
    const answer = await call();
    strike(name, "after");
    return answer;
  };
  const { gitea, queue, records, reports } = ports;
  const entered = pointOfUpdate();
  return {
    ...ports,
    gitea: {
      ...gitea,
      fetchTask: async (version) => {
        const answer = await gitea.fetchTask(version);
        if (answer.task !== undefined) strike("fetch", "after");
        return answer;
      },
      updateTask: (request, signal) =>
        around(pointOfReport(request.state), () => gitea.updateTask(request, signal)),
    },
    queue: {
      ...queue,
      publish: (task, signal) => around("publish", () => queue.publish(task, signal)),
      remove: (sequence, id, signal) => around("message_remove", () => queue.remove(sequence, id, signal)),
      next: async (kind, options, signal) => {
        const delivery = await queue.next(kind, options, signal);
        return (
          delivery && {
            ...delivery,
            acknowledge: (inner) => around("message_ack", () => delivery.acknowledge(inner)),
          }
        );
      },
    },
    records: {
      ...records,
      create: (record, signal) => around("record_create", () => records.create(record, signal)),
      update: (record, revision, signal) =>
        around(entered(record), () => records.update(record, revision, signal)),
      remove: (id, revision, signal) => around("record_remove", () => records.remove(id, revision, signal)),
    },
    reports: {
      ...reports,
      put: (...report) => around("report_put", () => reports.put(...report)),
      remove: (id, signal) => around("report_remove", () => reports.remove(id, signal)),
    },
    backends: ports.backends.map(({ backend, ...more }) => ({
      ...more,
      backend: {
        ...backend,
        create: (request, signal) => around("executor_create", () => backend.create(request, signal)),
        bindIdentity: (executor, signal) =>
          around("executor_bind", () => backend.bindIdentity(executor, signal)),
        markTerminal: (name, signal) => around("executor_mark", () => backend.markTerminal(name, signal)),
        kill: (name, reason, signal) => around("executor_kill", () => backend.kill(name, reason, signal)),
        delete: (name, signal) => around("executor_delete", () => backend.delete(name, signal)),
      },
    })),
    log: failingLog(ports.log, strike),
  };
}

type State = Parameters<CorePorts["gitea"]["updateTask"]>[0]["state"];

function pointOfReport(state: State): PortPoint {
  if ((state?.result ?? 0) !== 0) return "gitea_result";
  return (state?.steps?.length ?? 0) > 0 ? "gitea_report" : "gitea_beat";
}

/** Knows the phases of the records that went by. */
function pointOfUpdate(): (record: AssignmentRecord) => PortPoint {
  const phases = new Map<string, string>();
  return ({ assignment, phase }) => {
    const before = phases.get(assignment.id);
    phases.set(assignment.id, phase.name);
    return phase.name === before || phase.name === "queued" ? "record_update" : `enter_${phase.name}`;
  };
}

function failingLog(log: Logger, strike: Strike): Logger {
  const at =
    (level: "debug" | "info" | "warn" | "error"): Logger["info"] =>
    (fields, message) => {
      const point = eventPoints.find((name) => name === fields["event"]);
      if (point !== undefined) strike(point, "before");
      log[level](fields, message);
      if (point !== undefined) strike(point, "after");
    };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => failingLog(log.child(fields), strike),
  };
}

import { writeSync } from "node:fs";

/** Events of the log that mark a delivery's way (B-31). */
export const eventPoints = [
  "received",
  "capacity_acquired",
  "executor_absent",
  "executor_created",
  "identity_bound",
  "backend_ready",
  "runner_claimed",
  "acked",
] as const;
export type EventPoint = (typeof eventPoints)[number];

/** What the core asks of the world. */
export const portPoints = [
  /** FetchTask's answer with a task. */
  "fetch",
  "publish",
  "record_create",
  /** Updates of a record, by the phase that they enter; `record_update` is one that stays in its phase. */
  "enter_starting",
  "enter_adopted",
  "enter_claimed",
  "enter_ending",
  "enter_finished",
  "record_update",
  "record_remove",
  /** An executor's last report, beside its record. */
  "report_put",
  "report_remove",
  "message_ack",
  "message_remove",
  "executor_create",
  "executor_bind",
  "executor_mark",
  "executor_kill",
  "executor_delete",
  /** UpdateTask without steps, with steps, and with a result. */
  "gitea_beat",
  "gitea_report",
  "gitea_result",
] as const;
export type PortPoint = (typeof portPoints)[number];

/** A moment in a controller's life, counted from its start. */
export type FailPoint = {
  readonly name: EventPoint | PortPoint;
  readonly nth: number;
  readonly when: "before" | "after";
};

export function formatFailPoint({ name, nth, when }: FailPoint): string {
  return `${name}:${nth}:${when}`;
}

/** Throws for anything that would never come. */
export function parseFailPoint(text: string | undefined): FailPoint {
  const [name, nth, when, ...more] = (text ?? "").split(":");
  const known = [...eventPoints, ...portPoints].find((one) => one === name);
  const wrong = known === undefined || !/^[1-9]\d*$/.test(nth ?? "") || more.length > 0;
  if (wrong || (when !== "before" && when !== "after"))
    throw new Error(`FAIL_POINT=${text} is not <name>:<nth>:<before|after>`);
  return { name: known, nth: Number(nth), when };
}

/** What the log says last. */
export const failPointMessage = "fail point reached";

/** Called at every point; kills this process where it is told to. */
export type Strike = (name: FailPoint["name"], when: FailPoint["when"]) => void;

/**
 * Counts once so many tasks are stored: at an earlier kill one more could be on its way from Gitea to the stream, and
 * such a one is lost by protocol.
 */
export function createStrike(point: FailPoint, storedTasks: number): Strike {
  let stored = 0;
  let count = 0;
  return (name, when) => {
    if (name === "publish" && when === "after") stored++;
    if (stored < storedTasks || name !== point.name || when !== point.when || ++count !== point.nth) return;
    const line = { level: "fatal", msg: failPointMessage, point: formatFailPoint(point) };
    writeSync(2, `${JSON.stringify(line)}\n`);
    process.kill(process.pid, "SIGKILL");
    throw new Error("SIGKILL did not end this process at once");
  };
}

import assert from "node:assert/strict";
import { intruderKinds } from "./intruder.ts";
import { calm } from "./sim-network.ts";
import { after, ended, minutes, planOf, push, type Scenario, seconds } from "./scenario.ts";

/** Up to the claim. */
export const scenariosOfStarts: readonly Scenario[] = [
  {
    name: "creates nothing for the redelivery of a message whose ack got lost, after its job and a failover",
    plan: planOf([
      push(0, 1 * seconds),
      { at: after(0, "claimed"), do: "down", peer: "queue", how: "silent", ms: 60 * seconds },
      { at: after(0, "delivered", 2 * seconds), do: "crash", restartMs: 0 },
    ]),
    check: (job) => ended(job(0), "success"),
  },
  {
    name: "creates nothing for a message of a forgotten job that comes back with an old stream, after a failover",
    plan: planOf([
      push(0, 1 * seconds, { ms: 40 * seconds }),
      push(1, 2 * seconds),
      { at: after(1, "record-gone", 1 * seconds), do: "crash", restartMs: 0 },
      { at: after(1, "record-gone", 40 * seconds), do: "restore-stream", ageMs: 100 * seconds },
      push(2, after(1, "record-gone", 60 * seconds)),
    ]),
    check: (job, { world }) => {
      for (const number of [0, 1, 2]) ended(job(number), "success");
      assert.ok(job(1).resurrected, "its message did not come back");
      assert.equal(world.effects.get("create"), 3);
    },
  },
  {
    name: "stores a task once that it publishes again and again for 3 min",
    plan: planOf([
      push(0, 1 * seconds),
      {
        at: after(0, "fetched"),
        do: "weather",
        peer: "queue",
        weather: { ...calm, lostAnswer: 1, only: "publish" },
        ms: 3 * minutes,
      },
    ]),
    check: (job, { world }) => {
      ended(job(0), "success");
      assert.equal(world.effects.get("message-stored"), 1);
    },
  },
  {
    name: "runs a job that has waited behind a full pool for longer than Gitea keeps a silent task",
    plan: planOf([
      push(0, 1 * seconds, { steps: Array.from({ length: 15 }, () => ({ ms: 1 * minutes, rows: 1 })) }),
      push(1, 2 * seconds),
    ]),
    check: (job) => {
      ended(job(0), "success");
      ended(job(1), "success");
      assert.ok((job(1).runs[0] ?? 0) - (job(1).fetchedAt ?? Infinity) > 14 * minutes);
    },
  },
  {
    name: "I12 answers no caller but the attempt's own executor",
    plan: planOf(
      [
        push(0, 1 * seconds, { ms: 50 * seconds }),
        push(1, 1 * seconds + 100, { ms: 50 * seconds }),
        // The first attempts' executors are taken for lost, and wake up when the next ones run.
        ...[0, 1].flatMap(
          (nth) =>
            [
              { at: after(1, "booted", 1), do: "stop-executor", nth, ms: 70 * seconds },
              { at: after(1, "booted", 2), do: "ghost-executor", nth },
            ] as const,
        ),
        ...[0, 1].flatMap((job) =>
          [0, 1, 2, 3].flatMap((nth) =>
            intruderKinds.flatMap((as) =>
              [1, 30].map((s) => ({ at: after(job, "ran", s * seconds), do: "intrude", nth, as }) as const),
            ),
          ),
        ),
      ],
      2,
    ),
    check: (job) => {
      ended(job(0), "success", 2);
      ended(job(1), "success", 2);
    },
  },
  {
    name: "loses no job to a key file that lacks the key, once there is one that has it again",
    plan: planOf([
      push(0, 1 * seconds, { steps: Array.from({ length: 10 }, () => ({ ms: 1 * minutes, rows: 1 })) }),
      push(1, 2 * seconds),
      push(2, 1 * seconds, { backend: "vm" }),
      { at: 20 * seconds, do: "wrong-keys", ms: 7 * minutes },
      push(3, 5 * minutes, { backend: "vm" }),
    ]),
    check: (job) => {
      for (const number of [0, 1, 2, 3]) ended(job(number), "success");
    },
  },
  {
    name: "I7 tells a job within 30 s that the quota leaves no room, and runs it when there is some",
    plan: planOf([
      { at: 0, do: "refuse-creates", backend: "pod", kind: "retryable", reason: "quota", ms: 3 * minutes },
      push(0, 1 * minutes),
    ]),
    check: (job) => {
      ended(job(0), "success");
      told(job(0).rows, job(0).startFailures[0]?.at, "quota");
    },
  },
  {
    name: "I7 fails a job within 30 s whose image cannot be used, by that name, without an executor",
    plan: planOf([
      {
        at: 0,
        do: "refuse-creates",
        backend: "pod",
        kind: "terminal",
        reason: "image_invalid",
        ms: 3 * minutes,
      },
      push(0, 1 * minutes),
    ]),
    check: (job) => {
      ended(job(0), "failure");
      assert.equal(job(0).verdict?.reason, "image_invalid");
      told(job(0).rows, job(0).startFailures[0]?.at, "image_invalid");
    },
  },
  {
    name: "fails a job whose executors die at their start after three of them, by name, each loss told within 30 s",
    plan: planOf([
      { at: 0, do: "bad-starts", backend: "pod", chance: 1, ms: 30 * minutes },
      push(0, 1 * minutes),
    ]),
    check: (job) => {
      ended(job(0), "failure", 3);
      assert.equal(job(0).verdict?.reason, "attempts_exhausted");
      assert.equal(job(0).verdict?.last, "start_failed");
      told(job(0).rows, job(0).startFailures[0]?.at, "start_failed");
    },
  },
  {
    name: "replaces an executor that was evicted before its claim",
    plan: planOf([
      push(0, 1 * seconds),
      { at: after(0, "booted", 50), do: "end-executor", nth: 0, cause: "evicted" },
    ]),
    check: (job) => ended(job(0), "success", 2),
  },
  {
    name: "speaks for a task that a paused leader has fetched as it woke up, though the queue is away",
    plan: planOf([
      push(0, 1 * seconds, { ms: 30 * seconds }),
      push(1, 2 * seconds, { ms: 2 * minutes }),
      { at: 20 * seconds, do: "pause", ms: 60 * seconds, wakesForMs: 300 },
      push(2, 50 * seconds),
      push(3, 55 * seconds),
      { at: after(3, "recorded", 100), do: "down", peer: "queue", how: "silent", ms: 12 * minutes },
    ]),
    check: (job) => {
      for (const number of [0, 1, 2, 3]) ended(job(number), "success");
    },
  },
];

/** A row says the reason within 30 s of the cluster's knowing it. */
function told(
  rows: readonly { readonly at: number; readonly content: string }[],
  knownAt = 0,
  reason: string,
): void {
  const row = rows.find(({ content }) => content.includes(`Reason: ${reason}`));
  assert.ok(row !== undefined && row.at <= knownAt + 30 * seconds, `${reason} is not told in time`);
}

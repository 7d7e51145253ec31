import assert from "node:assert/strict";
import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { calm } from "./sim-network.ts";
import { after, ended, minutes, planOf, push, type Scenario, seconds } from "./scenario.ts";

/** From the claim on. */
export const scenariosOfEnds: readonly Scenario[] = [
  {
    name: "delivers the result of a job at whose end Gitea is away and whose executor then dies",
    plan: planOf([
      push(0, 1 * seconds),
      { at: after(0, "ran", 15 * seconds), do: "down", peer: "gitea", how: "silent", ms: 5 * minutes },
      { at: after(0, "delivered", 1 * seconds), do: "end-executor", nth: 0, cause: "killed" },
    ]),
    check: (job) => {
      ended(job(0), "success");
      assert.ok((job(0).hits[0]?.at ?? Infinity) < (job(0).overAt ?? 0), "Gitea was told while it lived");
    },
  },
  {
    name: "delivers the result of a job at whose end Gitea is away, after the executor and the leader have died",
    plan: planOf([
      push(0, 1 * seconds),
      { at: after(0, "ran", 15 * seconds), do: "down", peer: "gitea", how: "refuses", ms: 5 * minutes },
      { at: after(0, "delivered", 1 * seconds), do: "end-executor", nth: 0, cause: "oom" },
      { at: after(0, "delivered", 2 * seconds), do: "crash", restartMs: 10 * seconds },
    ]),
    check: (job) => ended(job(0), "success"),
  },
  {
    name: "winds a job up within 20 s of its cancel while Gitea cannot store logs for 15 min",
    plan: planOf([
      push(0, 1 * seconds, { steps: Array.from({ length: 10 }, () => ({ ms: 1 * minutes, rows: 2 })) }),
      { at: 10 * seconds, do: "log-store", ms: 15 * minutes },
      { at: 5 * minutes, do: "cancel", job: 0 },
    ]),
    check: (job) => {
      ended(job(0), "cancelled");
      const { cancelledAt = 0, windsUpAt = Infinity, overAt = Infinity } = job(0);
      assert.ok(windsUpAt <= cancelledAt + 20 * seconds);
      // The result waits for the log for 2 min at most.
      assert.ok(overAt <= windsUpAt + 2 * minutes + 30 * seconds, `over after ${overAt - windsUpAt} ms`);
      assert.ok(!(job(0).job.task?.log ?? []).some((row) => row.startsWith("Who can fix it")));
    },
  },
  {
    name: "fails a job by name 5 min after its bootstrap has been stopped",
    plan: planOf([
      push(0, 1 * seconds, { ms: 50 * seconds }),
      { at: after(0, "claimed", 1 * seconds), do: "stop-executor", nth: 0, ms: 30 * minutes },
    ]),
    check: (job) => {
      ended(job(0), "failure");
      assert.equal(job(0).verdict?.reason, "silent");
      const silentMs = (job(0).overAt ?? 0) - (job(0).hits[0]?.at ?? 0);
      assert.ok(
        silentMs > 5 * minutes - 10 * seconds && silentMs < 5 * minutes + 20 * seconds,
        `${silentMs} ms`,
      );
    },
  },
  {
    name: "lets post steps of 3 min run to their end after a cancel",
    plan: planOf([
      push(0, 1 * seconds, { ms: 60 * seconds, postMs: 3 * minutes }),
      { at: after(0, "ran", 20 * seconds), do: "cancel", job: 0 },
    ]),
    check: (job) => {
      ended(job(0), "cancelled");
      assert.equal(job(0).delivered?.result, Result.CANCELLED);
      assert.ok((job(0).overAt ?? 0) >= (job(0).windsUpAt ?? Infinity) + 3 * minutes);
    },
  },
  {
    name: "ends a job as cancelled whose post steps take longer than the 5 min that they have",
    plan: planOf([
      push(0, 1 * seconds, { ms: 60 * seconds, postMs: 10 * minutes }),
      { at: after(0, "ran", 20 * seconds), do: "cancel", job: 0 },
    ]),
    check: (job) => {
      ended(job(0), "cancelled");
      assert.equal(job(0).verdict?.reason, "cancel_ignored");
      const { overAt = 0, windsUpAt = 0 } = job(0);
      assert.ok(overAt - windsUpAt < 5 * minutes + 30 * seconds);
    },
  },
  {
    name: "fails a job by the name of what ended its executor, and no other",
    plan: planOf(
      [
        push(0, 1 * seconds, { ms: 60 * seconds }),
        push(1, 1 * seconds, { ms: 60 * seconds }),
        { at: after(0, "ran", 30 * seconds), do: "end-executor", nth: 0, cause: "oom" },
      ],
      2,
    ),
    check: (job) => {
      const [hit, spared] = job(0).hits.length > 0 ? [job(0), job(1)] : [job(1), job(0)];
      ended(hit, "failure");
      assert.equal(hit.verdict?.reason, "oom");
      ended(spared, "success");
    },
  },
  {
    name: "lets a claimed executor finish that no list shows any more, as long as it is heard",
    plan: planOf([
      push(0, 1 * seconds, { steps: Array.from({ length: 5 }, () => ({ ms: 1 * minutes, rows: 1 })) }),
      { at: after(0, "ran", 10 * seconds), do: "ghost-executor", nth: 0 },
    ]),
    check: (job) => ended(job(0), "success"),
  },
  {
    name: "keeps the last rows of a job at whose end Gitea is away for 8 min",
    plan: planOf([
      push(0, 1 * seconds),
      { at: after(0, "ran", 15 * seconds), do: "down", peer: "gitea", how: "silent", ms: 8 * minutes },
    ]),
    check: (job) => ended(job(0), "success"),
  },
  {
    name: "keeps the last rows of a job that Gitea took no rows of for 2.5 min: they follow the result",
    plan: planOf([
      push(0, 1 * seconds),
      {
        at: after(0, "ran", 12 * seconds),
        do: "weather",
        peer: "gitea",
        weather: { ...calm, lostRequest: 1, only: "UpdateLog" },
        ms: 2.6 * minutes,
      },
    ]),
    check: (job) => ended(job(0), "success"),
  },
  {
    name: "I6 acts on a cancel within 20 s in any state",
    plan: planOf(
      [
        push(0, 1 * seconds, { ms: 60 * seconds }),
        { at: after(0, "ran", 15 * seconds), do: "cancel", job: 0 },
        push(1, 1 * seconds, { ms: 60 * seconds }),
        { at: after(1, "fetched", 1), do: "cancel", job: 1 },
        push(2, 1 * seconds, { ms: 60 * seconds }),
        { at: after(2, "created", 1), do: "cancel", job: 2 },
        push(3, 1 * seconds, { ms: 60 * seconds }),
        { at: after(3, "booted", 1), do: "cancel", job: 3 },
        push(4, 30 * seconds, { ms: 60 * seconds, backend: "vm" }),
        push(5, 31 * seconds, { ms: 60 * seconds, backend: "vm" }),
        { at: after(5, "recorded", 5 * seconds), do: "cancel", job: 5 },
      ],
      4,
    ),
    check: (job) => {
      for (const number of [0, 1, 2, 3, 5]) {
        const { cancelledAt = 0, overAt = Infinity, windsUpAt = Infinity } = job(number);
        assert.equal(job(number).job.over, "cancelled");
        assert.ok(Math.min(overAt, windsUpAt) <= cancelledAt + 20 * seconds, `job ${number}`);
      }
      assert.equal(job(5).executors.size, 0, "one was made for a job that was cancelled while it waited");
      ended(job(4), "success");
    },
  },
];

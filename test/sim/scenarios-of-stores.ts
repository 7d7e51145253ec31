import assert from "node:assert/strict";
import { calm } from "./sim-network.ts";
import { after, ended, minutes, planOf, push, type Scenario, seconds } from "./scenario.ts";

/** A job that runs, one that starts, one that waits. */
const three = [
  push(0, 1 * seconds, { steps: Array.from({ length: 4 }, () => ({ ms: 1 * minutes, rows: 2 })) }),
  push(1, 1 * minutes, { ms: 40 * seconds }),
  push(2, 1 * minutes + 1 * seconds, { ms: 40 * seconds }),
];

/** When a store has lost something, or does not answer. */
export const scenariosOfStores: readonly Scenario[] = [
  {
    name: "I10 loses no job with the bucket, while jobs run, start and wait",
    plan: planOf([...three, { at: after(1, "created", 1), do: "lose-bucket", anewMs: 20 * seconds }], 2),
    check: (job) => {
      for (const number of [0, 1, 2]) ended(job(number), "success");
    },
  },
  {
    name: "I10 writes a record anew that nothing else changes, before the next leader needs it",
    plan: planOf([
      push(0, 1 * seconds, { ms: 5 * minutes }),
      { at: after(0, "ran", 30 * seconds), do: "lose-bucket", anewMs: 1 * seconds },
      { at: after(0, "ran", 2 * minutes), do: "crash", restartMs: 0 },
    ]),
    check: (job) => {
      ended(job(0), "success");
      assert.equal(job(0).forgotten.record, false);
    },
  },
  {
    name: "I10 loses no job with the stream, while jobs run, start and wait",
    plan: planOf([...three, { at: after(1, "created", 1), do: "lose-stream" }], 2),
    check: (job) => {
      for (const number of [0, 1, 2]) ended(job(number), "success");
    },
  },
  {
    name: "I10 loses no job with both stores at once",
    plan: planOf(
      [
        ...three,
        { at: after(1, "created", 1), do: "lose-stream" },
        { at: after(1, "created", 2), do: "lose-bucket", anewMs: 20 * seconds },
      ],
      2,
    ),
    check: (job) => {
      for (const number of [0, 1, 2]) ended(job(number), "success");
    },
  },
  {
    name: "I10 lets a running job go on whose record was lost together with the leader that remembered it",
    plan: planOf([
      push(0, 1 * seconds, { steps: Array.from({ length: 4 }, () => ({ ms: 1 * minutes, rows: 2 })) }),
      { at: after(0, "ran", 30 * seconds), do: "lose-bucket", anewMs: 1 * seconds },
      { at: after(0, "ran", 30 * seconds + 1), do: "crash", restartMs: 0 },
    ]),
    check: (job) => {
      assert.ok(job(0).forgotten.record);
      ended(job(0), "success");
    },
  },
  {
    name: "never makes a second executor for a job whose record and leader were lost, and whose executor then died",
    plan: planOf([
      push(0, 1 * seconds, { ms: 60 * seconds }),
      { at: after(0, "ran", 20 * seconds), do: "lose-bucket", anewMs: 1 * seconds },
      { at: after(0, "ran", 20 * seconds + 1), do: "crash", restartMs: 0 },
      { at: after(0, "ran", 21 * seconds), do: "restore-stream", ageMs: 30 * seconds },
      { at: after(0, "ran", 22 * seconds), do: "end-executor", nth: 0, cause: "oom" },
    ]),
    check: (job) => {
      ended(job(0), "failure");
      assert.equal(job(0).verdict?.reason, "oom");
    },
  },
  {
    name: "fails a waiting job by name whose message was lost together with the leader that remembered it",
    plan: planOf([
      push(0, 1 * seconds, { ms: 60 * seconds }),
      push(1, 2 * seconds),
      { at: after(0, "ran", 20 * seconds), do: "lose-stream" },
      { at: after(0, "ran", 20 * seconds + 1), do: "crash", restartMs: 0 },
    ]),
    check: (job) => {
      ended(job(0), "success");
      ended(job(1), "failure", 0);
      assert.equal(job(1).verdict?.reason, "queue_lost");
    },
  },
  {
    name: "stores a message anew that was lost for the second time, with the stream as it was after the first",
    plan: planOf([
      push(0, 1 * seconds, { steps: Array.from({ length: 4 }, () => ({ ms: 1 * minutes, rows: 1 })) }),
      push(1, 2 * seconds),
      { at: 50 * seconds, do: "lose-tail", count: 1 },
      { at: 75 * seconds, do: "lose-tail", count: 1 },
    ]),
    check: (job) => {
      ended(job(0), "success");
      ended(job(1), "success");
    },
  },
  {
    name: "runs jobs once through an outage of NATS that outlasts a leader",
    plan: planOf(
      [
        ...three,
        { at: after(1, "created", 1), do: "down", peer: "queue", how: "refuses", ms: 2 * minutes },
        { at: after(1, "created", 1), do: "down", peer: "records", how: "refuses", ms: 2 * minutes },
        { at: after(1, "created", 30 * seconds), do: "crash", restartMs: 0 },
      ],
      2,
    ),
    check: (job) => {
      for (const number of [0, 1, 2]) ended(job(number), "success");
    },
  },
  {
    name: "knows its own writes whose answers got lost",
    plan: planOf(
      [
        ...three,
        {
          at: 0,
          do: "weather",
          peer: "records",
          weather: { ...calm, lostAnswer: 0.5, repeated: 0.3 },
          ms: 4 * minutes,
        },
      ],
      2,
    ),
    check: (job) => {
      for (const number of [0, 1, 2]) ended(job(number), "success");
    },
  },
];

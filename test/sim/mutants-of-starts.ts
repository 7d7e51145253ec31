import type { Mutant } from "./mutant.ts";

/** Of the way from a message to a claim. */
export const mutantsOfStarts: readonly Mutant[] = [
  {
    name: "creates an executor before its record",
    edits: [
      {
        file: "controller/worker/create-executor.ts",
        from: `        ({ record } = await assignments.apply(id, { type: "attempt_begun", nonce, deadlineAt }, signal));`,
        to: `        const number = record.attempts.begun + 1;
        const phase = { name: "starting", attempt: { number, nonce }, since: clock.now(), deadlineAt };
        const begun = { ...record, attempts: { ...record.attempts, begun: number }, phase };
        await backend.create({ ...options.executorRequest(begun), deadlineAt }, signal);
        ({ record } = await assignments.apply(id, { type: "attempt_begun", nonce, deadlineAt }, signal));`,
      },
    ],
  },
  {
    name: "acknowledges before the claim",
    edits: [
      {
        file: "controller/worker/process-delivery.ts",
        from: `      event("received", id);`,
        to: `      event("received", id);
      await delivery.acknowledge(signal);`,
      },
    ],
  },
  {
    name: "creates without asking Gitea",
    scenario:
      "creates nothing for a message of a forgotten job that comes back with an old stream, after a failover",
    edits: [
      {
        file: "controller/worker/ensure-executor.ts",
        from: `    const word = obeyGitea(said);`,
        to: `    const word = undefined;`,
      },
    ],
  },
  {
    name: "never pulls again what was handed back",
    scenario: "I12 answers no caller but the attempt's own executor",
    edits: [
      {
        file: "controller/worker/worker.ts",
        from: `    return Math.min(...handedBack().map((id) => Math.max(0, (dueAt.get(id) ?? 0) - clock.now())));`,
        to: `    return Infinity;`,
      },
    ],
  },
  {
    name: "waits for the claim of a dead executor",
    scenario:
      "fails a job whose executors die at their start after three of them, by name, each loss told within 30 s",
    edits: [
      {
        file: "controller/worker/next-move.ts",
        from: `  if (executor.state.phase === "ended") {
    const { cause = "start_failed", reason } = executor.state;
    return lose(failureBeforeClaim(failureFor(cause, reason)));
  }`,
        to: `  if (executor.state.phase === "ended") return { do: "wait", ms: times.retryMs };`,
      },
    ],
  },
  {
    name: "terminates a message that it cannot decrypt",
    edits: [
      {
        file: "controller/worker/process-delivery.ts",
        from: `        options.onUnknownKey(content.assignmentId);
        return { againMs: times.retryMs };`,
        to: `        delivery.reject("unknown key");
        return over;`,
      },
    ],
  },
  {
    name: "counts no attempt",
    scenario:
      "fails a job whose executors die at their start after three of them, by name, each loss told within 30 s",
    edits: [
      {
        file: "controller/assignment/before-claim.ts",
        from: `burnt: record.attempts.burnt + (burnt ? 1 : 0),`,
        to: `burnt: 0,`,
      },
    ],
  },
  {
    name: "speaks for no task that waits",
    scenario: "I6 acts on a cancel within 20 s in any state",
    edits: [
      {
        file: "controller/worker/keep-alive.ts",
        from: `      start(record, signal);`,
        to: ``,
      },
    ],
  },
  {
    name: "goes on beating after the claim",
    edits: [
      {
        file: "controller/worker/keep-alive.ts",
        from: `      .filter((record) => record.assignment.backend === kind && isUnclaimed(record));`,
        to: `      .filter((record) => record.assignment.backend === kind);`,
      },
    ],
  },
  {
    name: "tells no waiting job why it waits",
    scenario: "I7 tells a job within 30 s that the quota leaves no room, and runs it when there is some",
    edits: [
      {
        file: "controller/worker/waiting-rows.ts",
        from: `    for (const record of waiting) if (due(record) !== undefined) start(record.assignment.id, signal);`,
        to: ``,
      },
    ],
  },
  {
    name: "writes rows before its record says so",
    edits: [
      {
        file: "controller/worker/waiting-rows.ts",
        from: `await assignments.apply(id, { type: "rows_begun" }, deadline);`,
        to: `known === undefined ? undefined : { record: known };`,
      },
    ],
  },
  {
    name: "gives the slot back while a list lacks the new executor",
    scenario:
      "the slot of an executor that was made just now went to another job, since an older list lacked it (I3)",
    edits: [
      {
        file: "controller/worker/process-delivery.ts",
        from: `    if (history.mayBe(id, currentExecutor(assignments.get(id)?.record))) return true;`,
        to: ``,
      },
    ],
  },
  {
    name: "makes executors on slots beyond the capacity",
    edits: [
      {
        file: "controller/worker/ensure-executor.ts",
        from: `    if (slots.isOverfull()) return { kind: "wait", ms: times.againMs };`,
        to: ``,
      },
    ],
    scenario:
      "a slot that was restored for an attempt whose create had been refused made an executor too many (I3)",
  },
  {
    name: "goes on publishing what has been delivered",
    edits: [
      {
        file: "controller/core-scheduler.ts",
        from: `      isKnown: (id) => assignments.get(id) !== undefined,`,
        to: `      isKnown: () => false,`,
      },
    ],
    scenario:
      "a fetcher whose publishes were never answered went on beating for its task after the claim: steps ran again",
  },
];

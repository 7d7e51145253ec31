import type { Mutant } from "./mutant.ts";

/** Of what is done when a store has lost something, or does not answer. */
export const mutantsOfStores: readonly Mutant[] = [
  {
    name: "takes its own write for a conflict",
    edits: [
      {
        file: "controller/record/record-store.ts",
        from: `    const current = await read(id, signal);
    if (current !== undefined && isOurs`,
        to: `    if (failure === undefined) throw new Error("somebody else has written the record");
    const current = await read(id, signal);
    if (current !== undefined && isOurs`,
      },
    ],
    scenario: "knows its own writes whose answers got lost",
  },
  {
    name: "takes a lost bucket for jobs that nobody has claimed",
    scenario:
      "never makes a second executor for a job whose record and leader were lost, and whose executor then died",
    edits: [
      {
        file: "controller/assignment/before-claim.ts",
        from: `            phase: { name: "adopted", attempt, since: now },`,
        to: `            phase: { name: "starting", attempt, since: now, deadlineAt: now + 10_000_000 },`,
      },
    ],
  },
  {
    name: "deletes executors without a record",
    edits: [
      {
        file: "controller/lifecycle/next-step.ts",
        from: `  return orphan === undefined ? deletes(executors) : [{ do: "adopt", executor: orphan }];`,
        to: `  return orphan === undefined ? deletes(executors) : deletes([orphan]);`,
      },
      {
        file: "controller/lifecycle/find-orphans.ts",
        from: `        if (orphan !== undefined && assignments.get(id) === undefined) orphans.set(id, orphan);`,
        to: ``,
      },
    ],
  },
  {
    name: "stores no lost message anew",
    edits: [
      {
        file: "controller/lifecycle/compare-stream.ts",
        from: `    const stored = await queue.publish(`,
        to: `    return;
    const stored = await queue.publish(`,
      },
    ],
  },
  {
    name: "looks no more for what it has stored anew",
    edits: [
      {
        file: "controller/lifecycle/compare-stream.ts",
        from: `    complete = all ? { at, wanted } : undefined;`,
        to: `    for (const { record } of waiting()) wanted.set(record.assignment.id, record.sequence);
    complete = { at, wanted };`,
      },
    ],
    scenario: "a message that was stored anew after a loss of the stream's end got lost again, unseen (I10)",
  },
  {
    name: "looks only at where the stream is",
    edits: [
      {
        file: "controller/lifecycle/compare-stream.ts",
        from: `    at.messages === now.at.messages &&
    [...now.wanted].every(([id, sequence]) => wanted.get(id) === sequence)`,
        to: `    at.messages === now.at.messages`,
      },
    ],
    scenario:
      "the stream was as it had been at the last complete look, and a loss since then was not looked for (I10)",
  },
  {
    name: "writes no lost record anew",
    scenario: "I10 writes a record anew that nothing else changes, before the next leader needs it",
    edits: [
      {
        file: "controller/lifecycle/compare-records.ts",
        from: `      if ((there.get(id)?.revision ?? 0) < revision) await keep(id, signal);`,
        to: `      if (id === "" && revision === 0) return;`,
      },
    ],
  },
  {
    name: "takes in no record of an earlier leader",
    scenario: "speaks for a task that a paused leader has fetched as it woke up, though the queue is away",
    edits: [
      {
        file: "controller/lifecycle/compare-records.ts",
        from: `    for (const [id, found] of unknown) if (strange.has(id)) await takeIn(found);`,
        to: ``,
      },
    ],
  },
  {
    name: "gives up a task that cannot be published at once",
    scenario: "stores a task once that it publishes again and again for 3 min",
    edits: [
      {
        file: "controller/scheduler/take-task.ts",
        from: `        if (neverStorable(error)) throw error;`,
        to: `        throw error;`,
      },
    ],
  },
  {
    name: "declares again and again",
    edits: [
      {
        file: "controller/scheduler/scheduler.ts",
        from: `      if (open.join() === declared.join()) await ignoringAbort(moved.first(), signal);
      else`,
        to: `      await ignoringAbort(moved.first(), signal);
      if (signal.aborted === false)`,
      },
    ],
  },
];

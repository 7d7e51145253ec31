import type { Mutant } from "./mutant.ts";

/** Of the way from a claim to the last trace of a job. */
export const mutantsOfEnds: readonly Mutant[] = [
  {
    name: "lets a second instance of an executor in",
    scenario: "I12 answers no caller but the attempt's own executor",
    edits: [
      {
        file: "controller/facade/admit.ts",
        from: `  if (claim !== undefined && claim.instance !== caller.instance)`,
        to: `  if (claim === null)`,
      },
    ],
  },
  {
    name: "lets the executor of a lost attempt in",
    scenario: "I12 answers no caller but the attempt's own executor",
    edits: [
      {
        file: "controller/facade/admit.ts",
        from: `  if (!isCurrentAttempt(record, caller.attempt))`,
        to: `  if (record === null)`,
      },
    ],
  },
  {
    name: "refuses an executor that it does not know for good",
    edits: [
      {
        file: "controller/facade/admit.ts",
        from: `  if (record === undefined) throw notKnown(caller);`,
        to: `  if (record === undefined) throw superseded(caller, "it is not known");`,
      },
    ],
  },
  {
    name: "answers a claim before it is recorded",
    edits: [
      {
        file: "controller/facade/claim-task.ts",
        from: `    const { record: now, ignored } = await stored(
      assignments.apply(record.assignment.id, { type: "claimed", attempt, instance, logRows }, signal),
    );`,
        to: `    const claim = { instance, logRows, at: 0 };
    const ignored = undefined;
    const now = { ...record, phase: { ...record.phase, name: "claimed", claim } };
    assignments
      .apply(record.assignment.id, { type: "claimed", attempt, instance, logRows }, signal)
      .catch(() => undefined);`,
      },
    ],
  },
  {
    name: "tells the executor of no rows before its own",
    edits: [
      {
        file: "controller/facade/claim-task.ts",
        from: `    if (!rowsBegun || tellsOfJob(state)) return 0;`,
        to: `    return 0;`,
      },
    ],
  },
  {
    name: "sends a result to Gitea before it is stored",
    edits: [
      {
        file: "controller/facade/update-task.ts",
        from: `        if (result !== undefined)
          return serve(`,
        to: `        if (result !== undefined) await options.gitea.updateTask(request, signal);
        if (result !== undefined)
          return serve(`,
      },
    ],
  },
  {
    name: "tells a verdict before it is recorded",
    scenario: "fails a job by name 5 min after its bootstrap has been stopped",
    edits: [
      {
        file: "controller/lifecycle/assignments.ts",
        from: `      const write = await store.update(wanted.record, known.revision, signal);`,
        to: `      if (event.type === "failed") {
        put({ record: wanted.record, revision: known.revision }, known.compressedTask);
        return { record: wanted.record };
      }
      const write = await store.update(wanted.record, known.revision, signal);`,
      },
    ],
  },
  {
    name: "leaves steps open",
    edits: [
      {
        file: "controller/gitea/close-steps.ts",
        from: `  const steps = known.length === 0 ? stepsOfAnyJob : known;`,
        to: `  const steps = [];`,
      },
    ],
  },
  {
    name: "frees the slot at the terminal",
    edits: [
      {
        file: "controller/lifecycle/over-steps.ts",
        from: `  if (there.executors.some((executor) => isAlive(executor) && !lingering.has(executor.name))) return [];`,
        to: ``,
      },
    ],
  },
  {
    name: "takes an executor for dead that one list lacks",
    edits: [
      {
        file: "controller/lifecycle/next-step.ts",
        from: `  if (now - Math.max(absentSince, heardAt) < times.absentMs) return undefined;`,
        to: ``,
      },
    ],
  },
  {
    name: "counts silence from before it led",
    scenario: "loses no job to a key file that lacks the key, once there is one that has it again",
    edits: [
      {
        file: "controller/lifecycle/hearing.ts",
        from: `      return Math.max(since, last.get(id) ?? since);`,
        to: `      return last.get(id) ?? 0;`,
      },
    ],
  },
  {
    name: "deletes an executor before its message",
    edits: [
      {
        file: "controller/lifecycle/over-steps.ts",
        from: `executor: name, messageFirst: true }`,
        to: `executor: name, messageFirst: false }`,
      },
    ],
  },
  {
    name: "forgets a record before its message",
    edits: [
      {
        file: "controller/lifecycle/perform.ts",
        from: `    await options.removeMessage(record.sequence, id, signal);
    await options.removeReports(id, signal);
    await assignments.remove(id, signal);`,
        to: `    await assignments.remove(id, signal);
    await options.removeReports(id, signal);
    await options.removeMessage(record.sequence, id, signal);`,
      },
    ],
  },
  {
    name: "kills an executor that holds the last rows of its job",
    edits: [
      {
        file: "controller/lifecycle/over-steps.ts",
        from: `end.by === "executor" ? times.resultGraceMs : 0`,
        to: `end.by === "executor" ? times.cancelGraceMs : 0`,
      },
    ],
    scenario: "keeps the last rows of a job at whose end Gitea is away for 8 min",
  },
  {
    name: "kills an executor that winds up",
    scenario: "keeps the last rows of a job that Gitea took no rows of for 2.5 min: they follow the result",
    edits: [
      {
        file: "controller/lifecycle/over-steps.ts",
        from: `  return by === "gitea" ? times.cancelGraceMs : times.terminalGraceMs;`,
        to: `  return 0;`,
      },
    ],
  },
];

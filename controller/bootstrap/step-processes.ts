import type { ListedProcess } from "./process-list.ts";

/** The processes of the steps that ran at one moment, and the process groups that they are in. */
export type StepProcesses = {
  readonly processes: ReadonlySet<string>;
  readonly groups: ReadonlySet<number>;
};

/** What gitea-runner has started and what that has started, each step in a process group of its own. */
export function stepProcesses(all: readonly ListedProcess[], runner: number): StepProcesses {
  const below = descendants(all, runner);
  const own = all.find(({ pid }) => pid === runner)?.group;
  return {
    processes: new Set(below.map((process) => nameOf(process))),
    groups: new Set(below.map(({ group }) => group).filter((group) => group !== own)),
  };
}

/**
 * Those of them that live on although the shell that started them is gone: gitea-runner ends only that, and then
 * waits until nobody holds the step's output any more.
 */
export function orphans(
  all: readonly ListedProcess[],
  runner: number,
  steps: StepProcesses,
): readonly ListedProcess[] {
  const below = new Set(descendants(all, runner));
  return all.filter(
    (process) =>
      !below.has(process) &&
      process.pid !== runner &&
      (steps.processes.has(nameOf(process)) || steps.groups.has(process.group)),
  );
}

/** Without the groups that have nobody left: the number may be given to a stranger's next. */
export function stillThere(all: readonly ListedProcess[], steps: StepProcesses): StepProcesses {
  const groups = new Set(all.map(({ group }) => group));
  return { ...steps, groups: new Set([...steps.groups].filter((group) => groups.has(group))) };
}

/** The same process in a later look. */
export function nameOf({ pid, startTime }: ListedProcess): string {
  return `${pid}/${startTime}`;
}

function descendants(all: readonly ListedProcess[], ancestor: number): readonly ListedProcess[] {
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found: ListedProcess[] = [];
  const open = [ancestor];
  for (let pid = open.pop(); pid !== undefined; pid = open.pop())
    for (const child of children.get(pid) ?? []) {
      found.push(child);
      open.push(child.pid);
    }
  return found;
}

import type { Happening } from "./narrate.ts";
import { stamp } from "./stamp.ts";
import type { Story } from "./story.ts";

export type Told = {
  readonly line: string;
  /** Whether a table of the run's jobs shows it as well. */
  readonly inTable: boolean;
};

/**
 * Turns what happens into lines, each once and in the order in which it happened. A line waits until Gitea has said
 * which job a task is, as long as the run goes on.
 */
export function createTeller(): (story: Story) => readonly Told[] {
  let told = 0;
  return (story) => {
    const lines: Told[] = [];
    for (const happening of story.happenings.slice(told)) {
      const name = nameOf(story, happening);
      if (name === undefined) break;
      told++;
      const { at, assignment, text, trouble } = happening;
      const inTable = !trouble && story.names.has(assignment);
      lines.push({ line: `${stamp(at - story.pushed)}  ${name.padEnd(nameWidth(story))} ${text}`, inTable });
    }
    return lines;
  };
}

function nameOf(story: Story, { assignment }: Happening): string | undefined {
  const task = story.tasks.get(assignment);
  const name = story.names.get(assignment) ?? (story.over ? (task?.jobKey ?? assignment) : undefined);
  return name === undefined || task === undefined ? name : withBackend(name, task.backend);
}

function withBackend(name: string, backend: string): string {
  return name.includes(backend) ? name : `${name} (${backend})`;
}

function nameWidth({ jobs }: Story): number {
  return Math.max(11, ...jobs.map(({ name, backend }) => withBackend(name, backend).length));
}

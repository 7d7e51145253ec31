import { withoutPasswords } from "../preview/without-passwords.ts";

/** What a comment is about. */
export type Subject = {
  /** Of Pulumi: each has a comment of its own. */
  readonly stack: string;
  /** The commit that the plan was made of. */
  readonly commit: string;
  /** The workflow run, as Gitea's pages number it. */
  readonly run: string;
};

/**
 * Bytes of a whole comment. Gitea takes as much as its database does, but keeps every version of it, and a proxy in front of it may
 * take no more than 1 MiB at once.
 */
export const maximumBytes = 64 * 1024;

/** For whatever else there is to say. */
const reservedBytes = 1024;

/** The line that a comment begins with, which Gitea's pages do not show. */
export function markerOf(stack: string): string {
  // What is in a comment of HTML must not end it.
  return `<!-- gitea-dynamic-runner: plan of stack ${stack.replaceAll(/[^\w./-]/g, "_")} -->`;
}

/** The whole comment. A plan that is too long loses its end, and says so; one that is empty is none. */
export function bodyOf(subject: Subject, plan: string): string {
  const text = withoutPasswords(plan).trim();
  const { shown, note } = text === "" ? nothing(subject.stack) : cut(text, maximumBytes - reservedBytes);
  const origin = `Of commit ${subject.commit}, by run ${subject.run}.`;
  return [markerOf(subject.stack), shown, ...(note === undefined ? [] : ["", note]), "", origin, ""].join(
    "\n",
  );
}

type Shown = { readonly shown: string; readonly note?: string };

function nothing(stack: string): Shown {
  return {
    shown: `## Plan of stack ${stack}\n\n**No plan:** the preview did not come to its end, see the job's log.`,
  };
}

/** As many whole lines as there is room for; where that is not even one, the beginning of it. */
function cut(text: string, room: number): Shown {
  if (Buffer.byteLength(text) <= room) return { shown: text };
  const lines = text.split("\n");
  const kept: string[] = [];
  let left = room;
  for (const line of lines) {
    const size = Buffer.byteLength(line) + 1;
    if (size > left) break;
    kept.push(line);
    left -= size;
  }
  const missing = lines.length - kept.length;
  if (kept.length === 0) kept.push(beginning(lines[0] ?? "", room));
  const fence = openFence(kept);
  return {
    shown: [...kept, ...(fence === undefined ? [] : [fence])].join("\n"),
    note: `**This is not all of it:** the last ${missing} of ${lines.length} lines are left out here, the job's log has them.`,
  };
}

/** Whole characters of a line. */
function beginning(line: string, room: number): string {
  return new TextDecoder().decode(Buffer.from(line).subarray(0, room), { stream: true });
}

/** The fence that these lines have begun a block of code with, and not ended. */
function openFence(lines: readonly string[]): string | undefined {
  let open: string | undefined;
  for (const line of lines) {
    const fence = /^`{3,}/.exec(line)?.[0];
    if (fence === undefined) continue;
    if (open === undefined) open = fence;
    else if (line === open) open = undefined;
  }
  return open;
}

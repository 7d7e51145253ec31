import { styleText } from "node:util";
import { stages, type Stage } from "./story.ts";
import type { JobView } from "./stages.ts";

export type Style = Parameters<typeof styleText>[0];
/** A piece of a line; control characters do not belong into it. */
export type Span = { readonly text: string; readonly style?: Style };
export type Line = readonly Span[];

export type Size = { readonly width: number; readonly height: number };

const widestName = 30;
const stageStyles: Readonly<Record<Stage, Style>> = {
  waiting: "dim",
  queued: "yellow",
  executor: "cyan",
  identity: "cyan",
  claimed: "cyan",
  running: "blue",
};

/**
 * The table of all jobs with a line that sums up. With a height it takes at most so many lines: those that are on
 * their way come first, then those that are done last, and a line tells of the rest.
 */
export function drawJobs(
  jobs: readonly JobView[],
  facts: { readonly elapsed: number; readonly executors: number },
  height: number = Infinity,
): readonly Line[] {
  const shown = choose(jobs, height - 2);
  const width = Math.min(widestName, Math.max(3, ...jobs.map(({ name }) => name.length)));
  const done = jobs.filter(({ stage }) => stage === "done").length;
  const hidden = jobs.length - shown.length;
  const sum = [
    seconds(facts.elapsed),
    `${done} of ${jobs.length} done`,
    `${facts.executors} ${facts.executors === 1 ? "executor" : "executors"}`,
    ...(hidden === 0 ? [] : [`${hidden} not shown`]),
  ].join(" · ");
  return [header(width), ...shown.map((job) => row(job, width)), [{ text: sum, style: "dim" }]];
}

/** A line as text that takes at most `width` columns, with or without colours. */
export function paint(line: Line, { width, colours }: { readonly width: number; readonly colours: boolean }) {
  let left = width;
  let text = "";
  for (const span of line) {
    const piece = Array.from(span.text).slice(0, left).join("");
    left -= columns(piece);
    text +=
      colours && span.style !== undefined && piece !== ""
        ? styleText(span.style, piece, { validateStream: false })
        : piece;
  }
  return text.trimEnd();
}

function choose(jobs: readonly JobView[], room: number): readonly JobView[] {
  if (jobs.length <= room) return jobs;
  const done = jobs.filter(({ stage }) => stage === "done");
  const toCome = jobs.filter(({ stage }) => stage === "waiting" || stage === "blocked");
  const onTheWay = jobs.filter((job) => !done.includes(job) && !toCome.includes(job));
  const chosen = [...onTheWay, ...done.toReversed(), ...toCome].slice(0, Math.max(1, room));
  return jobs.filter((job) => chosen.includes(job));
}

function header(width: number): Line {
  const heads = stages.map((stage) => stage.padStart(columnWidth(stage)));
  return [{ text: `${"job".padEnd(width)} on  ${"stage".padEnd(9)} total ${heads.join(" ")}`, style: "dim" }];
}

function row(job: JobView, width: number): Line {
  const { text, style } = stageCell(job);
  const total = (job.total === undefined ? "" : seconds(job.total, "")).padStart(5);
  const times = stages.map((stage, index): Span => {
    const spent = job.spent[index];
    const cell = ` ${(spent === undefined ? "" : seconds(spent, "")).padStart(columnWidth(stage))}`;
    return stage === job.stage ? { text: cell, style: stageStyles[stage] } : { text: cell };
  });
  return [
    { text: `${cut(job.name, width).padEnd(width)} ${job.backend.slice(0, 3).padEnd(3)} ` },
    { text: text.padEnd(9), style },
    { text: ` ${total}` },
    ...times,
    ...(job.attempts > 1 ? [{ text: ` attempt ${job.attempts}`, style: "yellow" } as const] : []),
  ];
}

function stageCell({ stage, conclusion }: JobView): Required<Span> {
  if (stage === "blocked") return { text: "needs", style: "dim" };
  if (stage !== "done") return { text: stage, style: stageStyles[stage] };
  if (conclusion === "success") return { text: "✓ success", style: "green" };
  if (conclusion === "skipped") return { text: "- skipped", style: "dim" };
  if (conclusion === "failure") return { text: "✗ failure", style: "red" };
  return { text: conclusion ?? "unknown", style: "red" };
}

function columnWidth(stage: Stage): number {
  return Math.max(6, stage.length);
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

/** Columns that a text without control characters takes; nothing of ours is wider than one each. */
export function columns(text: string): number {
  return Array.from(text).length;
}

/** Milliseconds as seconds, for people. */
export function seconds(ms: number, unit = " s"): string {
  return `${(Math.max(0, ms) / 1000).toFixed(1)}${unit}`;
}

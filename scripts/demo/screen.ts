import type { Clock } from "../../controller/platform/clock.ts";
import { columns, drawJobs, paint, type Line } from "./draw.ts";
import { createLiveBlock, widthOf, type Terminal } from "./live-block.ts";
import { viewJobs } from "./stages.ts";
import type { Story } from "./story.ts";
import { createTeller } from "./teller.ts";

/** Where the person who watches sees what happens. */
export type Screen = {
  /** Writes a line that stays. */
  readonly say: (line: string) => void;
  /** Something has changed. */
  readonly show: (story: Story) => void;
  /** The jobs are over: their last picture stays, and from now on `show` tells of what else happens line by line. */
  readonly settle: (story: Story) => void;
  /** Leaves the terminal as it was; for every way out, also more than once. */
  readonly close: () => void;
};

export type Output = Terminal & {
  on(event: "resize", listener: () => void): unknown;
  off(event: "resize", listener: () => void): unknown;
};

/** For a file, a pipe, or a terminal that can do nothing: a line for each thing that happens. */
export function createPlainScreen(write: (text: string) => void): Screen {
  const tell = createTeller();
  const say = (line: string) => {
    write(`${line}\n`);
  };
  const show = (story: Story) => {
    for (const { line } of tell(story)) say(line);
  };
  return { say, show, settle: show, close: () => undefined };
}

const frameMs = 100;

/** A table that is drawn anew in place, with colours if they are wanted. */
export function createLiveScreen(
  output: Output,
  { colours, clock }: { readonly colours: boolean; readonly clock: Clock },
): Screen {
  const block = createLiveBlock(output);
  const tell = createTeller();
  let story: Story | undefined;
  let settled = false;
  // One column stays free: a full line would take two rows in some terminals.
  const width = () => widthOf(output) - 1;
  const table = (of: Story, height?: number): readonly Line[] => {
    const now = clock.now();
    const facts = { elapsed: now - of.pushed, executors: of.executors.size };
    return drawJobs(viewJobs(of, now), facts, height);
  };
  const frame = () => {
    if (story === undefined || settled || story.jobs.length === 0) return;
    const lines = table(story, (output.rows ?? 24) - 1);
    block.draw(
      lines.map((line) => paint(line, { width: width(), colours })),
      lines.map((line) => columns(paint(line, { width: width(), colours: false }))),
    );
  };
  const say = (line: string) => {
    block.clear();
    output.write(`${line}\n`);
    frame();
  };
  const ticking = setInterval(frame, frameMs);
  ticking.unref();
  output.on("resize", frame);
  const close = () => {
    settled = true;
    clearInterval(ticking);
    output.off("resize", frame);
    block.end();
  };
  return {
    say,
    show: (next) => {
      story = next;
      for (const { line, inTable } of tell(next)) if (!inTable) say(line);
    },
    settle: (last) => {
      if (settled) return;
      block.clear();
      for (const line of table(last)) output.write(`${paint(line, { width: width(), colours })}\n`);
      close();
    },
    close,
  };
}

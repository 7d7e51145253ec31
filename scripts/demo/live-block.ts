/** What a terminal offers: a part of process.stdout. */
export type Terminal = {
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
};

/** Some lines at the end of the terminal's output that are drawn anew in place; what was there before stays. */
export type LiveBlock = {
  /** Lines hold no control characters but colours, which `lengths` does not count. */
  draw(lines: readonly string[], lengths: readonly number[]): void;
  /** Takes the block away, so that other output may follow. The next `draw` begins a new one. */
  clear(): void;
  /** Leaves the block as it is, shows the cursor again. */
  end(): void;
};

const hideCursor = "\u001B[?25l";
const showCursor = "\u001B[?25h";
// Terminals that know it show a frame at once; others ignore it.
const beginFrame = "\u001B[?2026h";
const endFrame = "\u001B[?2026l";
const eraseLine = "\u001B[K";
const eraseBelow = "\u001B[J";

export function createLiveBlock(terminal: Terminal): LiveBlock {
  /** Columns of each line that stands there. */
  let drawn: readonly number[] = [];
  let hidden = false;
  /** To the block's first line. A terminal that became narrower has broken our lines into several. */
  const up = () => {
    const width = widthOf(terminal);
    const rows = drawn.reduce((sum, length) => sum + Math.max(1, Math.ceil(length / width)), 0);
    const most = (terminal.rows ?? Infinity) - 1;
    return rows === 0 ? "\r" : `\r\u001B[${Math.min(rows, most)}A`;
  };
  return {
    draw: (lines, lengths) => {
      // Each line is overwritten and the rest of it erased: a block that is erased first would flicker.
      const text = lines.map((line) => `${line}${eraseLine}\n`).join("");
      terminal.write(`${beginFrame}${hideCursor}${up()}${text}${eraseBelow}${endFrame}`);
      drawn = lengths;
      hidden = true;
    },
    clear: () => {
      if (drawn.length > 0) terminal.write(`${up()}${eraseBelow}`);
      drawn = [];
    },
    end: () => {
      if (hidden) terminal.write(showCursor);
      hidden = false;
      drawn = [];
    },
  };
}

/** Columns of a terminal, at least one; 80 where it does not say. */
export function widthOf({ columns }: Terminal): number {
  return columns === undefined || columns < 1 ? 80 : columns;
}

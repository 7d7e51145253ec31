/** As much of a terminal as the demo uses: lines that wrap, and break anew when the width changes. */
export type FakeTerminal = {
  columns: number;
  rows: number;
  write(text: string): void;
  on(event: "resize", listener: () => void): void;
  off(event: "resize", listener: () => void): void;
  /** Rows from the first one that was ever written, without blanks at their ends. */
  screen(): readonly string[];
  /** Changes the size as the user does; what stands there is broken anew. */
  resize(columns: number, rows: number): void;
  readonly cursorShown: boolean;
  /** Each call of `write`. */
  readonly writes: readonly string[];
};

/** A logical line, and whether the cursor's row is within it, is kept by joining rows that were broken. */
type Row = { text: string; readonly continued: boolean };

export function createFakeTerminal(columns: number, rows: number): FakeTerminal {
  let lines: Row[] = [{ text: "", continued: false }];
  let row = 0;
  let column = 0;
  let cursorShown = true;
  const writes: string[] = [];
  const listeners = new Set<() => void>();
  const down = (continued: boolean) => {
    row++;
    lines[row] ??= { text: "", continued };
  };
  const put = (character: string) => {
    if (column === terminal.columns) {
      down(true);
      column = 0;
    }
    const line = lines[row] as Row;
    line.text = line.text.padEnd(column).slice(0, column) + character + line.text.slice(column + 1);
    column++;
  };
  const command = (argument: string, letter: string) => {
    const line = lines[row] as Row;
    switch (letter) {
      case "A": {
        // What has scrolled out of sight is out of reach.
        const top = Math.max(0, lines.length - terminal.rows);
        row = Math.max(top, row - Number(argument || "1"));
        return;
      }
      case "K":
        line.text = line.text.slice(0, column);
        return;
      case "J":
        line.text = line.text.slice(0, column);
        lines = lines.slice(0, row + 1);
        return;
      case "h":
      case "l":
        if (argument === "?25") cursorShown = letter === "h";
        return;
      case "m":
        return;
      default:
        throw new Error(`the fake terminal does not know ${argument}${letter}`);
    }
  };
  const terminal: FakeTerminal = {
    columns,
    rows,
    writes,
    get cursorShown() {
      return cursorShown;
    },
    write: (text) => {
      writes.push(text);
      // oxlint-disable-next-line no-control-regex -- a terminal's commands are made of control characters
      for (const [token, argument, letter] of text.matchAll(/\u001B\[([?\d;]*)([A-Za-z])|[^]/gu)) {
        if (letter !== undefined) command(argument ?? "", letter);
        else if (token === "\n") {
          down(false);
          column = 0;
        } else if (token === "\r") column = 0;
        else put(token);
      }
    },
    on: (_, listener) => void listeners.add(listener),
    off: (_, listener) => void listeners.delete(listener),
    screen: () => lines.map(({ text }) => text.trimEnd()),
    resize: (width, height) => {
      const whole: string[] = [];
      for (const { text, continued } of lines)
        if (continued) whole[whole.length - 1] += text;
        else whole.push(text);
      lines = whole.flatMap((text) => {
        const parts = text.match(new RegExp(`.{1,${width}}`, "gu")) ?? [""];
        return parts.map((part, index) => ({ text: part, continued: index > 0 }));
      });
      // The demo leaves the cursor at the beginning of the last line.
      row = lines.length - 1;
      column = 0;
      terminal.columns = width;
      terminal.rows = height;
      for (const listener of listeners) listener();
    },
  };
  return terminal;
}

/** Splits a stream of text into lines, hands each on and remembers the last ones for error messages. */
export type LastLines = {
  add(chunk: string): void;
  /** The text after the last line feed counts as a line. */
  text(): string;
};

export function createLastLines(count: number, onLine: (line: string) => void): LastLines {
  let rest = "";
  let lines: string[] = [];
  return {
    add: (chunk) => {
      const parts = (rest + chunk).split("\n");
      rest = parts.pop() ?? "";
      lines = [...lines, ...parts].slice(-count);
      for (const part of parts) onLine(part);
    },
    text: () => [...lines, rest].filter((line) => line !== "").join("\n"),
  };
}

import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

/** What mocha's "fail" event says of a test or a hook. With --parallel both have come from another process as JSON. */
export type FailedTest = {
  /** Absolute; absent when a file could not even be loaded, where the error may name it. */
  readonly file: string | undefined;
  readonly title: string;
  readonly message: string;
};

/** Characters of a title, and of an error's message. */
const longest = 200;

/**
 * A failed test on one line, of bounded length: its file (relative to `folder`), its full title, the beginning of its error's
 * message. Not the first line alone: that of an assertion tells only that values differ, the next ones tell the values.
 */
export function failedTestLine(test: FailedTest, folder: string): string {
  const parts = [cut(oneLine(test.title)), cut(oneLine(test.message))];
  if (test.file !== undefined) parts.unshift(oneLine(relative(folder, test.file)));
  return parts.filter((part) => part !== "").join(": ");
}

/** Without colours, line ends and other control characters, which would end the line or hide it in a terminal. */
function oneLine(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/[\s\p{C}]+/gu, " ")
    .trim();
}

function cut(text: string): string {
  // By code points, so that no character is cut in two.
  const characters = Array.from(text);
  return characters.length <= longest ? text : `${characters.slice(0, longest - 1).join("")}…`;
}

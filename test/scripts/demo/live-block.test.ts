import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createLiveBlock } from "../../../scripts/demo/live-block.ts";
import { createFakeTerminal } from "./fake-terminal.ts";

function drawOn(terminal: ReturnType<typeof createFakeTerminal>) {
  const block = createLiveBlock(terminal);
  const draw = (...lines: readonly string[]) => {
    block.draw(
      lines,
      lines.map(({ length }) => length),
    );
  };
  return { block, draw };
}

describe("the live block", () => {
  it("is drawn anew in place, and what was there before stays", () => {
    const terminal = createFakeTerminal(20, 10);
    const { draw } = drawOn(terminal);
    terminal.write("before\n");
    draw("one", "two", "three");
    draw("1", "", "three and more");
    assert.deepEqual(terminal.screen(), ["before", "1", "", "three and more", ""]);
    draw("last");
    assert.deepEqual(terminal.screen(), ["before", "last", ""]);
  });

  it("stays in place at the end of the screen", () => {
    const terminal = createFakeTerminal(20, 4);
    const { draw } = drawOn(terminal);
    terminal.write("a\nb\nc\nd\n");
    draw("one", "two", "three");
    draw("1", "2", "3");
    assert.deepEqual(terminal.screen(), ["a", "b", "c", "d", "1", "2", "3", ""]);
  });

  it("makes way for other output", () => {
    const terminal = createFakeTerminal(20, 10);
    const { block, draw } = drawOn(terminal);
    draw("one", "two");
    block.clear();
    terminal.write("a line that stays\n");
    draw("1", "2");
    assert.deepEqual(terminal.screen(), ["a line that stays", "1", "2", ""]);
  });

  for (const [width, what] of [
    [30, "wider"],
    [7, "narrower"],
    [3, "very narrow"],
  ] as const)
    it(`survives that the terminal becomes ${what}`, () => {
      const terminal = createFakeTerminal(20, 30);
      const { draw } = drawOn(terminal);
      terminal.write("ab\n");
      draw("0123456789", "01234567890123456", "");
      terminal.resize(width, 30);
      draw("x", "y", "z");
      assert.deepEqual(terminal.screen(), ["ab", "x", "y", "z", ""]);
    });

  it("writes a frame at once, and erases no line before the new one stands there", () => {
    const terminal = createFakeTerminal(20, 10);
    const { draw } = drawOn(terminal);
    draw("one", "two");
    draw("uno", "due");
    assert.equal(terminal.writes.length, 2);
    const frame = terminal.writes[1] ?? "";
    assert.ok(frame.indexOf("\u001B[J") > frame.indexOf("due"), "the block is erased first");
    assert.ok(frame.indexOf("\u001B[K") > frame.indexOf("uno"), "the line is erased first");
  });

  it("hides the cursor, and shows it again at the end, also after it made way", () => {
    const terminal = createFakeTerminal(20, 10);
    const { block, draw } = drawOn(terminal);
    draw("one");
    assert.equal(terminal.cursorShown, false);
    block.clear();
    block.end();
    assert.equal(terminal.cursorShown, true);
    assert.deepEqual(terminal.screen(), [""]);
    const count = terminal.writes.length;
    block.end();
    assert.equal(terminal.writes.length, count, "an end that came already is written again");
  });
});

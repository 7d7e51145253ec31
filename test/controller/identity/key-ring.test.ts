import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { type Keys, parseKeyRing } from "../../../controller/identity/key-ring.ts";

const secret = "a-secret-of-at-least-32-characters";
const hex = ({ id, capability, payload }: Keys) => ({
  id,
  capability: Buffer.from(capability).toString("hex"),
  payload: Buffer.from(payload).toString("hex"),
});

describe("key ring", () => {
  it("derives the same keys from the same line, for ever", () => {
    assert.deepEqual(parseKeyRing(secret).map(hex), [
      {
        id: "f3bbee44",
        capability: "33beeafac7d2f64584c36efe4092bb765e7b6f3711c211f4c4a600712d77beba",
        payload: "2970a00285e1975cd6e7dc5388d4b979d496cd5251e06b25fac36f881438647c",
      },
    ]);
  });

  it("keeps the order of the lines, blank lines, comments and white space aside", () => {
    const text = `# rotated in May\r\n\r\n  ${secret}-new \r\n\t\n# old\n${secret}\n\n`;
    assert.deepEqual(parseKeyRing(text).map(hex), [
      ...parseKeyRing(`${secret}-new`).map(hex),
      ...parseKeyRing(secret).map(hex),
    ]);
  });

  it("never uses one key for two purposes, nor one line's key for another", () => {
    const line = fc.stringMatching(/^[A-Za-z0-9+/=]{32,60}$/);
    fc.assert(
      fc.property(line, line, (a, b) => {
        const lines = [...new Set([a, b])];
        const keys = parseKeyRing(lines.join("\n")).map(hex);
        const all = keys.flatMap(({ id, capability, payload }) => [id, capability, payload]);
        assert.equal(new Set(all).size, 3 * lines.length);
        assert.ok(keys.every(({ id, capability, payload }) => !(capability + payload).includes(id)));
      }),
    );
  });

  it("tells in a key's name nothing of the line", () => {
    const [{ id }] = parseKeyRing("0123456789abcdef0123456789abcdef");
    assert.match(id, /^[0-9a-f]{8}$/);
    assert.ok(!"0123456789abcdef0123456789abcdef".includes(id));
  });

  for (const text of ["", "\n\n", "# only a comment of more than 32 characters", " \t\r\n"]) {
    it(`refuses ${JSON.stringify(text)}, which holds no key`, () => {
      assert.throws(() => parseKeyRing(text), { message: "it holds no key" });
    });
  }

  it("refuses a line that is too short, naming its number and nothing of it", () => {
    assert.throws(() => parseKeyRing(`# new\n${secret}\n\nhunter2-hunter2`), {
      message: "line 4 has fewer than 32 characters",
    });
    assert.throws(() => parseKeyRing("x".repeat(31)), /^Error: line 1 has fewer than 32 characters$/);
    assert.equal(parseKeyRing("x".repeat(32)).length, 1);
  });
});

import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";
import { readTokenFile } from "../../../scripts/demo/token-file.ts";

describe("the file with a token", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "token-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const aFile = async (text: string, mode = 0o600) => {
    const file = path.join(folder, "token");
    await writeFile(file, text);
    await chmod(file, mode);
    return file;
  };

  it("is read without the blanks around it", async () => {
    assert.deepEqual(await readTokenFile(await aFile("  abc123\r\n\n")), {
      token: "abc123",
      warning: undefined,
    });
  });

  it("is warned of if everybody can read it", async () => {
    assert.match(
      (await readTokenFile(await aFile("abc123", 0o644))).warning ?? "",
      /every user .* chmod 600/,
    );
    assert.equal((await readTokenFile(await aFile("abc123", 0o640))).warning, undefined);
  });

  for (const [what, text, message] of [
    ["is empty", " \n", /is empty/],
    ["holds two words", "secret-one secret-two", /something else than one token/],
    ["holds what no header can", "secret-\u00E4", /something else than one token/],
  ] as const)
    it(`is refused if it ${what}, without telling what is in it`, async () => {
      await assert.rejects(readTokenFile(await aFile(text)), (error: Error) => {
        assert.match(error.message, message);
        return !error.message.includes("secret");
      });
    });

  it("is named if it cannot be read", async () => {
    await assert.rejects(
      readTokenFile(path.join(folder, "none")),
      /--token-file .*none cannot be read: .*ENOENT/,
    );
  });
});

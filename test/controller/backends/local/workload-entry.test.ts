import assert from "node:assert/strict";
import { describe, it } from "mocha";
import {
  entryFile,
  entryName,
  parseEntry,
  serialiseEntry,
  socketPath,
} from "../../../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId } from "../../../../controller/identity/spiffe-id.ts";

const spiffeId = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");

describe("workload entry", () => {
  it("has a file and a socket of its own for each name", () => {
    assert.equal(entryFile("/run/wl", "gitea-task-7-1-abc"), "/run/wl/entries/gitea-task-7-1-abc.json");
    assert.equal(
      socketPath("/run/wl", "gitea-task-7-1-abc"),
      "/run/wl/sockets/gitea-task-7-1-abc/workload-api.sock",
    );
    assert.equal(entryName("gitea-task-7-1-abc.json"), "gitea-task-7-1-abc");
  });

  for (const name of ["", ".", "..", ".hidden", "a/b", "a b", "a\n", "-a", "a".repeat(64), "ä"]) {
    it(`refuses the name ${JSON.stringify(name.slice(0, 10))}`, () => {
      assert.throws(() => entryFile("/run/wl", name), /is no name of a workload entry/);
      assert.throws(() => socketPath("/run/wl", name), /is no name of a workload entry/);
      assert.equal(entryName(`${name}.json`), undefined);
    });
  }

  it("does not take a file that is being written for an entry", () => {
    assert.equal(entryName(".a.json.tmp"), undefined);
    assert.equal(entryName(".a.json"), undefined);
  });

  it("says when the folder is too deep for a socket", () => {
    const folder = `/${"d".repeat(107 - "/sockets/a/workload-api.sock".length - 1)}`;
    assert.equal(socketPath(folder, "a").length, 107);
    assert.throws(
      () => socketPath(`${folder}d`, "a"),
      /has 108 bytes, 107 are possible: use a shorter folder/,
    );
  });

  it("reads what it wrote", () => {
    for (const uid of [null, 0, 60600]) {
      assert.deepEqual(parseEntry(serialiseEntry({ spiffeId, uid })), { spiffeId, uid });
    }
  });

  const broken: readonly (readonly [string, string, RegExp])[] = [
    ["no JSON", "{\n[\n", /^it is not JSON$/],
    ["another type", "[]", /expected object/],
    ["no SPIFFE ID", '{"uid":null}', /spiffeId: .*expected string/],
    ["a bad SPIFFE ID", '{"spiffeId":"spiffe://example.org/a//b","uid":1}', /empty segment/],
    ["an ID without path", '{"spiffeId":"spiffe://example.org","uid":1}', /has a path/],
    ["no uid", `{"spiffeId":"${spiffeId}"}`, /uid: /],
    ["a negative uid", `{"spiffeId":"${spiffeId}","uid":-1}`, /uid: /],
    ["the uid that means none", `{"spiffeId":"${spiffeId}","uid":4294967295}`, /uid: /],
    ["an unknown field", `{"spiffeId":"${spiffeId}","uid":1,"user":"x"}`, /user/],
  ];
  for (const [what, text, message] of broken) {
    it(`refuses an entry with ${what}, on one line`, () => {
      assert.throws(
        () => parseEntry(text),
        (error) => error instanceof Error && message.test(error.message) && !error.message.includes("\n"),
      );
    });
  }
});

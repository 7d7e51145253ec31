import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { readSettings } from "../../../scripts/workload-api/settings.ts";

const args = ["--folder", "/run/wl", "--trust-domain", "example.org"];

describe("settings of the development Workload API", () => {
  it("are a folder, a trust domain and a time to live of an hour", () => {
    assert.deepEqual(readSettings(args, {}), {
      folder: "/run/wl",
      trustDomain: "example.org",
      svidTtlMs: 3_600_000,
      clockAheadMs: 0,
    });
    assert.equal(readSettings([...args, "--clock-ahead", "40"], {}).clockAheadMs, 40_000);
    assert.equal(readSettings([...args, "--svid-ttl", "4"], {}).svidTtlMs, 4_000);
  });

  const refused: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["nothing", [], /^usage: /],
    ["no trust domain", ["--folder", "/run/wl"], /^usage: /],
    ["a bad trust domain", ["--folder", "/run/wl", "--trust-domain", "Example.org"], /is not a trust domain/],
    ["no life at all", [...args, "--svid-ttl", "0"], /1 to 86400/],
    ["a life that is no number", [...args, "--svid-ttl", "1h"], /1 to 86400/],
    ["a life of weeks", [...args, "--svid-ttl", "999999"], /1 to 86400/],
    ["a clock of tomorrow", [...args, "--clock-ahead", "86400"], /0 to 3600/],
    ["a clock behind", [...args, "--clock-ahead=-1"], /0 to 3600/],
    ["an unknown option", [...args, "--uid", "0"], /--uid/],
  ];
  for (const [what, wrong, message] of refused) {
    it(`refuse ${what}`, () => {
      assert.throws(() => readSettings(wrong, {}), { message });
    });
  }

  it("refuse to run in production, saying why", () => {
    assert.throws(() => readSettings(args, { NODE_ENV: "production" }), /for the quick start and tests/);
  });
});

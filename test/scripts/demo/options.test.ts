import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { parseOptions, UsageError } from "../../../scripts/demo/options.ts";

const plain = { exit: false, keep: false, workload: { kind: "example" }, gitea: undefined };

describe("the demo's options", () => {
  const good: readonly (readonly [string, readonly string[], object | string])[] = [
    ["nothing", [], plain],
    ["--exit", ["--exit"], { ...plain, exit: true }],
    ["--keep", ["--keep"], { ...plain, keep: true }],
    ["--jobs", ["--jobs", "1"], { ...plain, workload: { kind: "many", jobs: 1 } }],
    ["--jobs=", ["--jobs=100"], { ...plain, workload: { kind: "many", jobs: 100 } }],
    ["--workflow", ["--workflow", "a.yml"], { ...plain, workload: { kind: "file", file: "a.yml" } }],
    [
      "--gitea with slashes at the end",
      ["--gitea", "https://git.example/sub//", "--token-file", "t"],
      { ...plain, gitea: { url: "https://git.example/sub", tokenFile: "t" } },
    ],
    [
      "--gitea with a port",
      ["--gitea", "http://127.0.0.1:3000", "--token-file", "t"],
      { ...plain, gitea: { url: "http://127.0.0.1:3000", tokenFile: "t" } },
    ],
    ["-h", ["-h", "--jobs", "many"], "help"],
  ];
  for (const [name, args, options] of good)
    it(`understand ${name}`, () => assert.deepEqual(parseOptions(args), options));

  it("take DEMO_KEEP for --keep unless it is 0 or empty", () => {
    for (const [value, keep] of [
      ["1", true],
      ["0", false],
      ["", false],
    ] as const)
      assert.deepEqual(parseOptions([], { DEMO_KEEP: value }), { ...plain, keep }, value);
  });

  const bad: readonly (readonly [readonly string[], RegExp])[] = [
    [["--jobs", "0"], /from 1 to 100/],
    [["--jobs", "101"], /from 1 to 100/],
    [["--jobs", "-1"], /--jobs/],
    [["--jobs", "2.5"], /from 1 to 100/],
    [["--jobs", "1e1"], /from 1 to 100/],
    [["--jobs"], /--jobs/],
    [["--jobs", "2", "--workflow", "a"], /exclude each other/],
    [["--gitea", "http://git.example"], /--gitea needs --token-file/],
    [["--token-file", "t"], /--token-file needs --gitea/],
    [["--gitea", "git.example", "--token-file", "t"], /no http or https address/],
    [["--gitea", "ssh://git.example", "--token-file", "t"], /no http or https address/],
    [["more"], /more/],
    [["--quiet"], /--quiet/],
  ];
  for (const [args, message] of bad)
    it(`refuse ${args.join(" ")}`, () =>
      assert.throws(
        () => parseOptions(args),
        (error) => error instanceof UsageError && message.test(error.message),
      ));

  it("refuse a login in the address without repeating it", () => {
    assert.throws(
      () => parseOptions(["--gitea", "http://me:hush@git.example", "--token-file", "t"]),
      (error) => error instanceof UsageError && !error.message.includes("hush"),
    );
  });
});

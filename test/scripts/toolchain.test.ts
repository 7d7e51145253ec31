import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { describe, it } from "mocha";

const top = path.join(import.meta.dirname, "../..");
const run = promisify(execFile);
const manifest = JSON.parse(readFileSync(path.join(top, "package.json"), "utf8")) as {
  readonly type: string;
  readonly engines: { readonly node: string };
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
};

describe("what npm ci brings", () => {
  it("is one Node 24 for every machine, which npm puts before the one on PATH", async () => {
    const [version = "", ...others] = new Set(Object.values(manifest.optionalDependencies));
    assert.deepEqual(others, []);
    assert.match(version, /^24\./);
    const folders = (process.env["PATH"] ?? "").split(path.delimiter);
    const PATH = folders.filter((folder) => !folder.includes("node_modules")).join(path.delimiter);
    const ask = ["exec", "--offline", "--call", "node --version"];
    const { stdout } = await run("npm", ask, { cwd: top, env: { ...process.env, PATH } });
    assert.equal(stdout.trim(), `v${version}`);
    const least = manifest.engines.node.replace(">=", "");
    assert.ok(version.localeCompare(least, "en", { numeric: true }) >= 0);
  });

  it("is a tsc of TypeScript 7", async () => {
    const { stdout } = await run(path.join(top, "node_modules/.bin/tsc"), ["--version"]);
    assert.match(stdout, /^Version 7\./);
  });
});

describe("the toolchain", () => {
  it("has the scripts that a person and a CI call, and each file that they name", () => {
    for (const name of ["check", "lint", "format", "gen", "test", "test:e2e", "demo", "start", "peers"])
      assert.ok(name in manifest.scripts, name);
    for (const [name, script] of Object.entries(manifest.scripts))
      for (const [, file = ""] of script.matchAll(/(?:^|\s)([\w./-]+\.ts)\b/g))
        assert.equal(globSync(file, { cwd: top }).length, 1, `${name}: ${file}`);
  });

  it("is modules in TypeScript, with one tsconfig.json, whose every source folder is checked", () => {
    const exclude = (entry: string) => /(^|\/)(node_modules|\.cache)$/.test(entry);
    assert.deepEqual(globSync("**/tsconfig*.json", { cwd: top, exclude }), ["tsconfig.json"]);
    assert.equal(manifest.type, "module");
    const { include } = JSON.parse(readFileSync(path.join(top, "tsconfig.json"), "utf8")) as {
      readonly include: readonly string[];
    };
    const outside = globSync("**/*.{ts,mts,cts}", { cwd: top, exclude }).filter((file) =>
      include.every((folder) => !file.startsWith(`${folder}/`)),
    );
    assert.deepEqual(outside, []);
  });
});

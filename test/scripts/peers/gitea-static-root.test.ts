import assert from "node:assert/strict";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { before, describe, it } from "mocha";
import { readPin } from "../../../scripts/peers/pin.ts";
import { prepareGitea } from "../../../scripts/peers/prepare-gitea.ts";
import { useFakeTools } from "../../support/fake-tools.ts";

const soon = () => AbortSignal.timeout(50_000);

describe("the files that Gitea reads at run time", () => {
  const tools = useFakeTools();
  const prepare = (more: NodeJS.ProcessEnv = {}) =>
    prepareGitea({ environment: { ...tools.environment, ...more } }, soon());

  before("make a module and a Go that finds it", async () => {
    const { version } = await readPin("gitea");
    const module = join(tools.bin, "..", "module");
    for (const name of ["templates", "options", "public", "web_src"]) {
      await mkdir(join(module, name), { recursive: true });
      // Go's module cache is read-only.
      await writeFile(join(module, name, "file"), name, { mode: 0o444 });
    }
    await tools.script(
      "go",
      'if [ "$1" = env ]; then echo go1.99.0; exit; fi',
      `if [ "$1" = mod ]; then echo '${JSON.stringify({ Dir: module })}'; exit; fi`,
      'while [ "$1" != -o ]; do shift; done',
      `echo '#!/bin/sh' > "$2"; echo 'echo gitea version ${version}' >> "$2"; chmod +x "$2"`,
    );
  });

  it("come without the web page, and with the reason, when npm has no registry", async () => {
    await tools.script("npm", "echo no such host >&2; exit 1");
    const gitea = await prepare();
    assert.equal(gitea.source, "built");
    assert.ok(!gitea.webPage.built);
    assert.match(gitea.webPage.reason, /npm install.*no such host/);
    assert.ok(gitea.staticRoot !== undefined);
    assert.equal(await readFile(join(gitea.staticRoot, "templates", "file"), "utf8"), "templates");
    assert.equal((await stat(join(gitea.staticRoot, "templates", "file"))).mode & 0o777, 0o644);
  });

  it("come without it when its build makes no page", async () => {
    await tools.script(
      "npm",
      'mkdir -p "$4/node_modules/.bin"; cp "$(dirname "$0")/pnpm" "$4/node_modules/.bin/"',
    );
    await tools.script("pnpm", 'echo "$@" >> "$CALLS"');
    const gitea = await prepare();
    assert.ok(!gitea.webPage.built);
    assert.match(gitea.webPage.reason, /made no public\/assets/);
    assert.match(
      (await tools.calls()).join("\n"),
      /^install --frozen-lockfile --ignore-scripts .*\nexec vite build$/,
    );
  });

  it("come with it as soon as it can be built, in a copy of the module", async () => {
    const build = "mkdir -p public/assets/.vite; echo {} > public/assets/.vite/manifest.json";
    await tools.script("pnpm", `if [ "$1" = exec ]; then echo "CI=$CI $NODE_ENV" >> "$CALLS"; ${build}; fi`);
    const gitea = await prepare({ CI: "true" });
    assert.equal(gitea.source, "cache");
    assert.deepEqual(gitea.webPage, { built: true });
    assert.ok(gitea.staticRoot !== undefined);
    assert.equal(
      await readFile(join(gitea.staticRoot, "public", "assets", ".vite", "manifest.json"), "utf8"),
      "{}\n",
    );
    assert.equal((await tools.calls()).at(-1), "CI= production");
  });

  it("are found in the cache from then on, without any tool", async () => {
    for (const name of ["go", "npm", "pnpm"]) await tools.script(name, "exit 1");
    const gitea = await prepare();
    assert.deepEqual(gitea.webPage, { built: true });
  });

  it("are those of GITEA_STATIC_ROOT, if it is given, or the binary's own", async () => {
    const { binary, staticRoot } = await prepare();
    assert.ok(staticRoot !== undefined);
    const bare = join(dirname(binary), "static");
    assert.equal((await prepare({ GITEA_BINARY: binary })).staticRoot, undefined);
    const given = await prepare({ GITEA_BINARY: binary, GITEA_STATIC_ROOT: bare });
    assert.equal(given.staticRoot, bare);
    assert.ok(!given.webPage.built);
    assert.equal((await prepare({ GITEA_STATIC_ROOT: staticRoot })).webPage.built, true);
    await assert.rejects(prepare({ GITEA_STATIC_ROOT: "/nowhere" }), /GITEA_STATIC_ROOT=\/nowhere/);
  });
});

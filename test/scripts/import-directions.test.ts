import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, it } from "mocha";

const top = path.join(import.meta.dirname, "../..");
const deadlineMs = 30_000;

/** A file, what it imports, and whether lint lets it. */
const imports: readonly (readonly [file: string, target: string, allowed: boolean])[] = [
  ["controller/assignment/a.ts", "controller/identity/b.ts", true],
  ["controller/assignment/a.ts", "controller/platform/b.ts", false],
  ["controller/identity/a.ts", "zod", false],
  ["controller/queue/a.ts", "controller/platform/b.ts", true],
  ["controller/queue/a.ts", "controller/backends/backend.ts", true],
  ["controller/queue/a.ts", "controller/record/b.ts", false],
  ["controller/worker/a.ts", "controller/backends/pod/b.ts", false],
  ["controller/facade/a.ts", "controller/core.ts", false],
  ["controller/bootstrap/a.ts", "controller/spiffe/b.ts", true],
  ["controller/bootstrap/a.ts", "controller/facade/b.ts", false],
  ["controller/backends/backend.ts", "controller/assignment/b.ts", true],
  ["controller/backends/backend.ts", "controller/platform/b.ts", false],
  ["controller/backends/backend.ts", "controller/backends/pod/b.ts", false],
  ["controller/backends/pod/a.ts", "controller/backends/local/b.ts", false],
  ["controller/kubernetes/a.ts", "controller/queue/b.ts", false],
  ["controller/platform/a.ts", "controller/assignment/b.ts", false],
  ["controller/protocol/a.ts", "controller/gitea/b.ts", false],
  ["controller/main.ts", "controller/queue/b.ts", true],
  ["controller/main.ts", "scripts/demo/b.ts", false],
  ["controller/core.ts", "test/fakes/b.ts", false],
  ["controller/config/a.ts", "scripts/demo/b.ts", false],
  ["infra/a.ts", "controller/assignment/b.ts", false],
  ["infra/a.ts", "test/support/b.ts", false],
  ["scripts/peers/a.ts", "controller/platform/b.ts", true],
  ["scripts/peers/a.ts", "test/support/b.ts", false],
];

/** The file of the nth of them, in the folder that it is about. */
function fileOf(index: number): string {
  const [file] = imports[index] ?? ["", "", false];
  return path.join(path.dirname(file), `${path.basename(file, ".ts")}-${index}.ts`);
}

describe("lint", () => {
  let folder = "";
  const refused = new Set<string>();

  before("let it look at one file for each", async () => {
    folder = await mkdtemp(path.join(tmpdir(), "lint-"));
    const rules = JSON.parse(await readFile(path.join(top, ".oxlintrc.json"), "utf8")) as {
      options: Record<string, unknown>;
    };
    // Types are of no interest here, and take long.
    rules.options["typeAware"] = false;
    await writeFile(path.join(folder, ".oxlintrc.json"), JSON.stringify(rules));
    for (const [index, [, target]] of imports.entries()) {
      const file = fileOf(index);
      const relative = path.relative(path.dirname(file), target);
      const name = target.endsWith(".ts") ? relative.replace(/^(?!\.)/, "./") : target;
      await mkdir(path.join(folder, path.dirname(file)), { recursive: true });
      await writeFile(path.join(folder, file), `import { b } from "${name}";\nexport const a = b;\n`);
    }
    for (const { code, filename } of await lint(folder))
      if (code === "eslint(no-restricted-imports)") refused.add(filename);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  for (const [index, [file, target, allowed]] of imports.entries())
    it(`${allowed ? "lets" : "does not let"} ${file} import ${target}`, () => {
      assert.equal(refused.has(fileOf(index)), !allowed);
    });
});

type Finding = { readonly code: string; readonly filename: string };

async function lint(folder: string): Promise<readonly Finding[]> {
  const program = path.join(top, "node_modules/.bin/oxlint");
  const output = await new Promise<string>((resolve) => {
    // Its exit code says that there are findings, which is what is wanted.
    execFile(program, ["--format=json"], { cwd: folder, timeout: deadlineMs }, (_error, stdout) => {
      resolve(stdout);
    });
  });
  return (JSON.parse(output) as { readonly diagnostics: readonly Finding[] }).diagnostics;
}

import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { after, before } from "mocha";

/** A PATH and a cache of a test's own. */
export type FakeTools = {
  /** The first folder on PATH. */
  readonly bin: string;
  readonly cache: string;
  /** With PATH and cache of the test, and nothing that names a peer. */
  readonly environment: NodeJS.ProcessEnv;
  /** Puts a shell script on PATH, under `name`; returns its path. */
  script(name: string, ...lines: readonly string[]): Promise<string>;
  /** Makes a named pipe: writing to it, or reading from it, waits for the other side. */
  pipe(name: string): Promise<string>;
  /** The lines that scripts have appended to the file `calls` beside `bin`. */
  calls(): Promise<readonly string[]>;
};

const run = promisify(execFile);

/** Registers hooks that make a fresh folder for each `describe` and remove it. */
export function useFakeTools(): FakeTools {
  let folder = "";
  before("make a folder for fake tools", async () => {
    folder = await mkdtemp(join(tmpdir(), "fake-tools-"));
    await mkdir(join(folder, "bin"));
  });
  after("remove the fake tools", () => rm(folder, { recursive: true, force: true }));
  const tools: FakeTools = {
    get bin() {
      return join(folder, "bin");
    },
    get cache() {
      return join(folder, "cache");
    },
    get environment() {
      const path = `${tools.bin}:/usr/bin:/bin`;
      return {
        PATH: path,
        HOME: folder,
        NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
        CALLS: join(folder, "calls"),
        GITEA_DYNAMIC_RUNNER_CACHE: tools.cache,
      };
    },
    script: async (name, ...lines) => {
      const file = join(tools.bin, name);
      await writeFile(file, `#!/bin/sh\n${lines.join("\n")}\n`);
      await chmod(file, 0o755);
      return file;
    },
    pipe: async (name) => {
      const file = join(folder, name);
      await run("mkfifo", [file]);
      return file;
    },
    calls: async () => {
      const text = await readFile(join(folder, "calls"), "utf8").catch(() => "");
      return text.split("\n").filter((line) => line !== "");
    },
  };
  return tools;
}

/**
 * Lines of a script that plays `go`: tells a version, and "builds" a nats-server that tells the pinned one. `duringBuild` runs
 * when half of the program is written.
 */
export function fakeGo(version: string, duringBuild: string): readonly string[] {
  return [
    `if [ "$1" = env ]; then echo go1.99.0; exit; fi`,
    `echo build >> "$CALLS"`,
    `while [ "$1" != -o ]; do shift; done`,
    `echo '#!/bin/sh' > "$2"`,
    duringBuild,
    `echo 'echo nats-server: v${version}' >> "$2"`,
    `chmod +x "$2"`,
  ];
}

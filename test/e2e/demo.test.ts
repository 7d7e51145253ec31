import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { stripVTControlCharacters } from "node:util";
import { before, describe, it } from "mocha";
import * as z from "zod";
import { systemClock } from "../../controller/platform/clock.ts";
import { askGitea } from "../../scripts/peers/gitea-api/client.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { preparePeers } from "../../scripts/quick-start/prepare-peers.ts";
import { assertNoneKnows, processesThatKnow, terminalTool, useDemo } from "../scripts/demo/demo-process.ts";
import { useGitea } from "../support/gitea.ts";
import { missingTools, skipFor } from "../support/needs-tools.ts";

/** The first time, Gitea is compiled. */
const prepareMs = 30 * 60_000;
const hideCursor = "\u001B[?25l";
const showCursor = "\u001B[?25h";
const someone = "somebody";
const password = "a-long-enough-word";

function workflow(name: string, ...script: readonly string[]): string {
  const run = script.map((line) => `          ${line}`);
  return [
    "on: push",
    "jobs:",
    `  ${name}:`,
    "    runs-on: [self-hosted, pod]",
    "    steps:",
    "      - run: |",
  ]
    .concat(run, "")
    .join("\n");
}

async function untilSomethingKnows(word: string): Promise<void> {
  const soon = AbortSignal.timeout(30_000);
  while (processesThatKnow(word).length === 0) await systemClock.sleep(50, soon);
}

describe("npm run demo", () => {
  const demos = useDemo();
  before("prepare the peers", async function () {
    this.timeout(prepareMs);
    await preparePeers(createReport(), AbortSignal.timeout(prepareMs));
  });

  it("shows the example's way, and stays up with an address and a login for a browser until Ctrl-C", async () => {
    const demo = demos.start([]);
    const address = /http\S+/.exec(await demo.line(/^ {2}the run /))?.[0] ?? "";
    const [, user = "", secret = ""] = /login +(\S+) \/ (\S+)/.exec(await demo.line(/^ {2}login /)) ?? [];
    assert.match(address, /\/demo\/hello\/actions\/runs\/1$/);
    assert.equal((await fetch(address)).status, 200);
    const authorization = `Basic ${Buffer.from(`${user}:${secret}`).toString("base64")}`;
    const me = await fetch(new URL("/api/v1/user", address), { headers: { authorization } });
    assert.equal(me.status, 200);
    assert.equal(await demo.stop(), 130);

    const text = demo.lines.join("\n");
    assert.match(text, /check vm +claimed: gitea-runner runs it/);
    assert.match(text, /^Gitea says: build success, check pod success, check vm success$/m);
    assert.match(text, /build: the step "Try something that fails" failed, as it may/);
    assert.match(text, /the log of build shows the secret DEMO_PASSWORD as \*\*\*/);
    assert.match(
      demo.lines.at(-1) ?? "",
      /^Success: 3 jobs, \d+\.\d s from push to done, at most [12] at once; cleaned up: 3 executors, 4 processes, 1 folder$/,
    );
    assert.ok(!text.includes("\u001B"), "there is no terminal");
    await demos.assertNothingIsLeft();
  });

  it("as the README has it, with --exit, ends with 0 when all jobs of the example were a success", async () => {
    const readme = await readFile(path.join(import.meta.dirname, "../../README.md"), "utf8");
    assert.match(readme, /^npm ci && npm run demo -- --exit /m);
    const demo = demos.start(["--exit"]);
    assert.equal(await demo.ended, 0);
    assert.match(
      demo.lines.at(-1) ?? "",
      /^Success: 3 jobs, .*; cleaned up: 3 executors, 4 processes, 1 folder$/,
    );
    await demos.assertNothingIsLeft();
  });

  it("leaves nothing when Ctrl-C comes twice while it starts", async () => {
    const demo = demos.start(["--exit"]);
    await demo.line(/Gitea .* answers at/);
    const late = setInterval(() => demo.interrupt(), 800);
    try {
      assert.equal(await demo.stop(), 130);
    } finally {
      clearInterval(late);
    }
    assert.equal(demo.lines.at(-1), "Stopped before anything was pushed; nothing is left");
    await demos.assertNothingIsLeft();
  });

  for (const [moment, line, by, code] of [
    ["while Gitea starts", /^Platform$/, "SIGTERM", 143],
    ["while NATS starts", /runner \S+ is registered/, "SIGINT", 130],
    ["while the Workload API starts", /NATS JetStream listens/, "SIGTERM", 143],
    ["before the push", /the controller runs/, "SIGINT", 130],
    ["after the push", / pushed /, "SIGTERM", 143],
    ["while an executor starts", /executor started/, "SIGINT", 130],
    ["while a job runs", /claimed: gitea-runner runs it/, "SIGTERM", 143],
    ["between two jobs", /Gitea has its result/, "SIGINT", 130],
  ] as const)
    it(`leaves nothing, and ends soon, when ${by} comes ${moment}`, async () => {
      const demo = demos.start(["--exit"]);
      await demo.line(line);
      assert.equal(await demo.stop(by), code);
      assert.match(
        demo.lines.at(-1) ?? "",
        /^Stopped(; cleaned up: .*1 folder| before anything was pushed; nothing is left)$/,
      );
      await demos.assertNothingIsLeft();
    });

  describe("with a Gitea of one's own", () => {
    const real = useGitea();
    let tokenFile = "";
    let token = "";
    const soon = () => AbortSignal.timeout(30_000);
    const options = (...more: readonly string[]) => {
      const gitea = ["--gitea", `${real.gitea.url}/`, "--token-file", tokenFile];
      return [...gitea, "--exit", ...more];
    };
    const given = (...more: readonly string[]) => demos.start(options(...more));
    const workflowFile = async (name: string, text: string) => {
      const file = path.join(real.folder, `${name}.yml`);
      await writeFile(file, text);
      return file;
    };
    const writeToken = async (scopes: readonly string[]) => {
      const name = `t-${scopes.join("-")}`;
      const response = await fetch(`${real.gitea.url}/api/v1/users/${someone}/tokens`, {
        method: "POST",
        headers: {
          authorization: `Basic ${Buffer.from(`${someone}:${password}`).toString("base64")}`,
          "content-type": "application/json",
        },
        body: JSON.stringify({ name, scopes }),
      });
      token = z.object({ sha1: z.string() }).parse(await response.json()).sha1;
      tokenFile = path.join(real.folder, name.replace(/\W/g, "-"));
      await writeFile(tokenFile, `${token}\n`, { mode: 0o600 });
    };
    const assertNothingWasLeft = async () => {
      const runners = { method: "GET", path: "/admin/actions/runners" } as const;
      const { total_count: count } = await askGitea(
        real.admin,
        runners,
        z.object({ total_count: z.int() }),
        soon(),
      );
      assert.equal(count, 0, "a runner is left");
      const search = { method: "GET", path: "/repos/search" } as const;
      const { data } = await askGitea(real.admin, search, z.object({ data: z.array(z.unknown()) }), soon());
      assert.deepEqual(data, [], "a repository is left");
      await demos.assertNothingIsLeft();
    };

    before("add a user who is no administrator", async () => {
      const who = ["--username", someone, "--password", password, "--email", "s@example.invalid"];
      const user = ["admin", "user", "create", ...who, "--must-change-password=false"];
      await real.gitea.command(user, soon());
    });

    it("says what a token lacks, and shows no token", async () => {
      await writeToken(["write:repository"]);
      const demo = given();
      assert.equal(await demo.ended, 1);
      const text = demo.lines.join("\n");
      assert.match(text, /refused the creation of a repository \(403: .*required=\[write:user\]/);
      assert.ok(!text.includes(token));
      await assertNothingWasLeft();
    });

    it("runs six jobs there with --exit, and removes its runner and repository", async () => {
      await writeToken(["write:user", "write:repository"]);
      const demo = given("--jobs", "6");
      assert.equal(await demo.ended, 0);
      const text = demo.lines.join("\n");
      assert.match(text, /registered for somebody\/gitea-dynamic-runner-demo-\w+ only/);
      assert.match(
        demo.lines.at(-1) ?? "",
        /^Success: 6 jobs, .* at most [1-5] at once; cleaned up: 6 executors, 3 processes, 1 folder, 1 runner, 1 repository$/,
      );
      assert.ok(!text.includes(token));
      await assertNothingWasLeft();
    });

    it("draws a table on a terminal that shows each stage in place, and puts the cursor back", async function () {
      const missing = await missingTools([terminalTool, "stty"]);
      if (missing.length > 0) skipFor(this, `there is no ${missing.join(", ")}`);
      const gate = path.join(real.folder, "seen");
      const file = await workflowFile("seen", workflow("seen", `until [ -e ${gate} ]; do sleep 0.1; done`));
      const demo = demos.startOnTerminal(options("--workflow", file));
      await demo.line(/seen +pod .*running/);
      await writeFile(gate, "");
      assert.equal(await demo.ended, 0);
      const written = demo.lines.join("\n");
      assert.ok(written.lastIndexOf(showCursor) > written.lastIndexOf(hideCursor));
      assert.ok(written.includes(hideCursor));
      const rows = stripVTControlCharacters(written).split(/[\r\n]+/);
      assert.ok(
        rows.some((row) => /^job +on +stage +total +waiting .*running$/.test(row)),
        rows.join("\n"),
      );
      const frames = rows.flatMap((row) => /^seen +pod (?:[✓✗] )?(\w+)/.exec(row)?.[1] ?? []);
      const order = ["waiting", "queued", "executor", "identity", "claimed", "running", "success"];
      assert.deepEqual(
        [...new Set(frames)],
        order.filter((stage) => frames.includes(stage)),
      );
      for (const stage of ["running", "success"]) assert.ok(frames.includes(stage), frames.join());
      // What the table shows needs no line of its own.
      assert.ok(!rows.some((row) => row.includes("claimed: gitea-runner runs it")));
      await assertNothingWasLeft();
    });

    it("ends with 1 and the end of the log when a job really fails", async () => {
      const file = await workflowFile("failing", workflow("doomed", "echo the reason is here", "exit 3"));
      const demo = given("--workflow", file);
      assert.equal(await demo.ended, 1);
      assert.match(demo.lines.join("\n"), /Gitea says: doomed failure\n(.*\n)*.*the reason is here/);
      assert.match(demo.lines.at(-1) ?? "", /^Failure: 1 of 1 job, /);
      await assertNothingWasLeft();
    });

    it("leaves nothing after a Ctrl-C while a job runs, whatever the job has started", async () => {
      const lost = "600.25117";
      // Only root gives an executor a uid of its own, by which everything of it is found.
      const asRoot = process.geteuid?.() === 0;
      const stray = asRoot ? `env -i setsid sleep ${lost} &` : "";
      const file = await workflowFile("long", workflow("long", stray, `sleep 600.5`));
      const demo = given("--workflow", file);
      await demo.line(/claimed: gitea-runner runs it/);
      if (asRoot) await untilSomethingKnows(lost);
      assert.equal(await demo.stop(), 130);
      assert.match(
        demo.lines.at(-1) ?? "",
        /^Stopped; cleaned up: 1 executor, 3 processes, 1 folder, 1 runner, 1 repository$/,
      );
      await assertNoneKnows(lost);
      await assertNothingWasLeft();
    });
  });
});
